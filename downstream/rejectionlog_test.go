package downstream

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// However many types a client makes up, and however often it comes anew, the log has a
// bounded number of its rejections in a minute, and takes bounded memory (LIM-4).
func TestRejectionLog_LIM4_types(t *testing.T) {
	var said strings.Builder
	r := newRejectionLog(slog.New(slog.NewTextHandler(&said, nil)))
	loud := 0
	for i := range 10_000 {
		for range 8 {
			if r.level(fmt.Sprintf("example.com/type-%d", i), i) >= slog.LevelWarn {
				loud++
			}
		}
	}
	if most := loudTypes*loudRejections + loudAltogether; loud > most {
		t.Errorf("%d rejections are worth a warning, want %d at most", loud, most)
	}
	if len(r.types) > loudTypes+1 {
		t.Errorf("%d types are counted", len(r.types))
	}
	r.end()
	if got := strings.Count(said.String(), "\n"); got != 1 || !strings.Contains(said.String(), "type="+otherTypes) {
		t.Errorf("at the end %d lines: %s", got, said.String())
	}
}
