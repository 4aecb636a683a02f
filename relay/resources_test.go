package relay

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestResourceView_TTL2(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		expires time.Time
		want    string
	}{
		{"TTL-2 when it expires", at, `"expires":"2026-01-02T03:04:05Z"`},
		{"TTL-2 nothing without a ttl", time.Time{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := json.Marshal(viewResource(nil, sessionKey{plane: "p"}, &cache.Info{Name: "a", Expires: tc.expires}, false))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(b); !strings.Contains(got, tc.want) || strings.Contains(got, "expires") != (tc.want != "") {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
