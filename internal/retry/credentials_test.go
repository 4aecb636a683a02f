package retry

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Some connections stand at once, further ones at a pace. Copies of the credentials count together.
func TestPaced_OPS2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := PacedCredentials(insecure.NewCredentials()), time.Now()
		var at []time.Duration
		for i := range 8 {
			if i%2 == 1 {
				p = p.Clone()
			}
			if _, _, err := p.ClientHandshake(t.Context(), "a", nil); err != nil {
				t.Fatal(err)
			}
			at = append(at, time.Since(began))
		}
		if at[4] != 0 || at[5] != time.Second || at[7] != 3*time.Second {
			t.Errorf("connections stood after %v", at)
		}
		<-time.After(time.Minute)
		began = time.Now()
		for range 4 {
			_, _, _ = p.ClientHandshake(t.Context(), "a", nil)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("after a quiet minute connections waited %v", d)
		}
	})
}

type failing struct {
	credentials.TransportCredentials
}

var errFails = errors.New("fails")

func (failing) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errFails
}

// Handshakes that fail do not count, and one that waits ends with its context.
func TestPaced_OPS2_failures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := PacedCredentials(failing{insecure.NewCredentials()}), time.Now()
		for range 20 {
			if _, _, err := p.ClientHandshake(t.Context(), "a", nil); !errors.Is(err, errFails) {
				t.Fatal(err)
			}
		}
		p = PacedCredentials(insecure.NewCredentials())
		for range 5 {
			_, _, _ = p.ClientHandshake(t.Context(), "a", nil)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("waited %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := p.ClientHandshake(ctx, "a", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
