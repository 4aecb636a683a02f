package main

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func TestWaiting(t *testing.T) {
	// Two scopes of one relay have the name in different versions.
	answers := []adminclient.Answer[admin.Reach]{{Value: admin.Reach{
		Spread: admin.Spread{Asking: 3, Sent: 3, Accepted: 2, Version: "7", Others: []string{"slow"}}, Holding: map[string]int{"6": 1, "7": 1, "": 1},
	}}}
	for _, tt := range []struct {
		version string
		share   float64
		done    bool
		text    string
	}{
		{"", 0.6, true, "2 of 3 clients have it (1 an older version or none, 1 version 6, 1 version 7); not: slow"},
		{"", 1, false, "2 of 3 clients have it (1 an older version or none, 1 version 6, 1 version 7); not: slow"},
		{"7", 0.3, true, "1 of 3 clients have it (1 an older version or none, 1 version 6, 1 version 7); not: slow"},
		{"7", 0.6, false, "1 of 3 clients have it (1 an older version or none, 1 version 6, 1 version 7); not: slow"},
	} {
		w := waiting{version: tt.version, share: tt.share}
		if done := w.look(answers); done != tt.done || w.text != tt.text || w.err != nil {
			t.Errorf("version %q, share %v: done %t, %s, %v", tt.version, tt.share, done, w.text, w.err)
		}
	}
}
