package downstream

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestREST_OPS5_LIM1_LargeBodies: bodies that come slowly are in memory meanwhile. Large ones
// are refused beyond what is held of all of them, and small ones never are.
func TestREST_OPS5_LIM1_LargeBodies(t *testing.T) {
	const most = 64 << 20
	s := newShared(Config{Limits: Limits{PerClient: ClientLimits{UnfinishedBytes: most, Share: 1}}})
	defer s.senders.stop()
	read := func(n int) (*meteredBody, error) {
		r := &http.Request{Body: io.NopCloser(strings.NewReader(strings.Repeat("x", n)))}
		b := s.meter(r)
		_, err := io.Copy(io.Discard, r.Body)
		return b, err
	}
	var large []*meteredBody
	for range 4 {
		b, err := read(most / 4)
		if err != nil || b.over {
			t.Fatalf("refused within the bound: %v", err)
		}
		large = append(large, b)
	}
	small, err := read(freeUnfinished)
	if err != nil || small.over {
		t.Errorf("a small body is refused: %v", err)
	}
	last, err := read(most / 2)
	if err == nil || !last.over || pollError(err).Code != http.StatusTooManyRequests {
		t.Errorf("beyond the bound: %v, over: %t", err, last.over)
	}
	for _, b := range append(large, small, last) {
		b.done()
	}
	if left := s.unfinished.Taken(); left != 0 {
		t.Errorf("%d bytes are held of nothing", left)
	}
}
