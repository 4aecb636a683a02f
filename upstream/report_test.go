package upstream

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestACK6RejectionsDoNotFloodTheLog: a server may send the same bad response again as
// soon as it was rejected. It is worth a warning now and then; another reason, or
// another type, at once.
func TestACK6RejectionsDoNotFloodTheLog(t *testing.T) {
	var log bytes.Buffer
	r := newReport("plane", "endpoint", slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), SessionConfig{})
	at := time.Now()
	said := func(typeURL, reason string) int {
		log.Reset()
		r.noteRejected(typeURL, "1", errors.New(reason), at)
		return strings.Count(log.String(), "response rejected")
	}
	for i, c := range []struct {
		typeURL, reason string
		after           time.Duration
		want            int
	}{
		{"a", "twice", 0, 1},
		{"a", "twice", time.Second, 0},
		{"b", "twice", 0, 1},
		{"a", "nameless", 0, 1},
		{"a", "nameless", rejectionPause - time.Nanosecond, 0},
		{"a", "nameless", time.Nanosecond, 1},
	} {
		at = at.Add(c.after)
		if got := said(c.typeURL, c.reason); got != c.want {
			t.Errorf("%d: %d warnings for %q of type %q, want %d", i, got, c.reason, c.typeURL, c.want)
		}
	}
	if r.Status().LastRejection.TypeURL != "a" {
		t.Errorf("the last rejection is not kept: %v", r.Status().LastRejection)
	}
}
