package traffic

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Backend answers every request with its name, and gives its address. It serves until
// the test ends.
func Backend(tb testing.TB, name string) string {
	tb.Helper()
	lis, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, name) // a client that left is not told
		}),
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) }) // ends with Close
	tb.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return lis.Addr().String()
}
