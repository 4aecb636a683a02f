package upstream

import (
	"errors"
	"testing"

	"google.golang.org/grpc/metadata"
)

// scarce is a token that may be missing.
type scarce struct {
	token string
	err   error
}

func (s *scarce) Token() (string, error) { return s.token, s.err }
func (s *scarce) Lately() []string       { return []string{s.token} }
func (*scarce) Close()                   {}

// What begins without a token does not begin, and what begins with one has it as of then.
func TestHeaders_ACC6(t *testing.T) {
	token := &scarce{err: errors.New("the agent is away")}
	h := headersOf(map[string][]string{"x-a": {"1"}, "x-b": {"1"}}, map[string][]string{"x-b": {"2"}}, token)
	if ctx, err := h.outgoing(t.Context()); !errors.Is(err, errNoToken) || !errors.Is(err, token.err) || reasonOf(err, false) != ReasonNoToken {
		t.Errorf("without a token: %v, %v", ctx, err)
	}
	for _, text := range []string{"s3cret-1", "s3cret-2"} {
		token.token, token.err = text, nil
		ctx, err := h.outgoing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		md, _ := metadata.FromOutgoingContext(ctx)
		for name, want := range map[string]string{"x-a": "1", "x-b": "2", "authorization": "Bearer " + text} {
			if got := md.Get(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	if ctx, err := headersOf(nil, nil, nil).outgoing(t.Context()); err != nil || ctx != t.Context() {
		t.Errorf("nothing to send: %v", err)
	}
}
