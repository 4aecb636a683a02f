package upstream

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// proxyChild has the test binary be the relay's side of TestLOC6Proxy: Go reads the
// variables of proxies once.
const proxyChild = "XDSRELAY_TEST_PROXY_CHILD"

// The proxy of the environment looks names up by itself. A name that NO_PROXY has is looked up
// by the relay, and its addresses are not for the proxy either.
func TestLOC6Proxy(t *testing.T) {
	if os.Getenv(proxyChild) != "" {
		proxiedChild(t)
		return
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				mu.Lock()
				asked = append(asked, r.Method+" "+r.Host)
				mu.Unlock()
			}
			_ = conn.Close()
		}
	})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLOC6Proxy$")
	cmd.Env = append(os.Environ(), proxyChild+"=1", "HTTPS_PROXY=http://"+lis.Addr().String(), "NO_PROXY=direct.example.com")
	out, err := cmd.CombinedOutput()
	_ = lis.Close()
	wg.Wait()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := slices.Compact(asked); !slices.Equal(got, []string{"CONNECT via.example.com:443"}) {
		t.Errorf("the proxy was asked for %q", got)
	}
}

func proxiedChild(t *testing.T) {
	t.Helper()
	resolver := newNames("direct.example.com", "192.0.2.1") // nobody's
	for _, host := range []string{"via", "direct"} {
		u := newUpstream(t, Config{
			Endpoints: [][]string{{fmt.Sprint(host, ".example.com:443")}}, ConnectTimeout: 200 * time.Millisecond, Dial: Dial{Resolver: resolver},
		})
		obs := &recorder{}
		s := run(t, u, newStore(sub(clusters, "*")), obs)
		eventually(t, "a failure", func() bool { return s.Status().LastError != nil })
		_ = s.stop()
	}
}
