package integration

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// joiners are many light clients: each is a stream that acknowledges everything and keeps nothing, and that
// comes again when it ends, as it was told.
type joiners struct {
	*testing.T

	ctx     context.Context
	running sync.WaitGroup
	took    func(node string, r *discovery.DeltaDiscoveryResponse) // is told of responses; nil: nobody is
	first   func()                                                 // is called at each client's first response; nil: nothing is

	served, hinted, ended atomic.Int64 // clients that had a response; streams that ended with a hint when to come again, and without
	waiting               sync.WaitGroup
}

func newJoiners(t *testing.T) *joiners {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	j := &joiners{T: t, ctx: ctx}
	t.Cleanup(func() { cancel(); j.running.Wait() })
	return j
}

// join has a client come that subscribes to names of a type.
func (j *joiners) join(conn *grpc.ClientConn, node, typeURL string, names ...string) {
	j.waiting.Add(1)
	j.running.Go(func() {
		first := sync.OnceFunc(func() {
			j.served.Add(1)
			j.waiting.Done()
			if j.first != nil {
				j.first()
			}
		})
		for {
			err := j.stream(conn, node, typeURL, names, first)
			if j.ctx.Err() != nil {
				return
			}
			after := 100*time.Millisecond + rand.N(400*time.Millisecond)
			told := false
			for _, d := range status.Convert(err).Details() {
				if hint, ok := d.(*errdetails.RetryInfo); ok {
					after, told = hint.GetRetryDelay().AsDuration(), true
				}
			}
			if told {
				j.hinted.Add(1)
			} else {
				j.ended.Add(1)
			}
			select {
			case <-j.ctx.Done():
				return
			case <-time.After(after):
			}
		}
	})
}

// stream runs one stream until it ends.
func (j *joiners) stream(conn *grpc.ClientConn, node, typeURL string, names []string, served func()) error {
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(j.ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	_ = stream.Send(&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: node}, TypeUrl: typeURL, ResourceNamesSubscribe: names}) // Recv knows why it fails
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		served()
		if j.took != nil {
			j.took(node, r)
		}
		_ = stream.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: r.GetNonce()})
	}
}

// all waits until all clients have had a response. None may fail for good.
func (j *joiners) all(n int, within time.Duration) {
	j.Helper()
	done := make(chan struct{})
	go func() { j.waiting.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(within):
		j.Fatalf("%d of %d clients were served within %v", j.served.Load(), n, within)
	}
}

// ownRelay is a relay in a process of its own.
type ownRelay struct {
	addr, admin string
	process     *process
}

// startOwnRelay starts one. text is its configuration beside admin and the address of the server: %s.
func startOwnRelay(t *testing.T, text string) *ownRelay {
	t.Helper()
	r := &ownRelay{addr: freeAddress(t), admin: freeAddress(t)}
	file := filepath.Join(t.TempDir(), "relay.yaml")
	text = fmt.Sprintf(text, r.addr) + fmt.Sprintf("\nadmin: {listen: %q}\n", r.admin)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.process, err = startProcess([]string{relayFile + "=" + file}, os.Args[0]); err != nil {
		t.Fatal(err)
	}
	r.process.logOnFailure(t)
	t.Cleanup(r.process.close)
	waitFor(t, "the relay's metrics", func() bool { return r.page() != "" })
	return r
}

// page is /metrics; "": there is none yet.
func (r *ownRelay) page() string {
	response, err := http.Get("http://" + r.admin + "/metrics")
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body) // of a connection that breaks there is less
	return string(text)
}

// sum adds up the series of a metric whose labels match.
func (r *ownRelay) sum(t *testing.T, metric, labels string) (sum float64) {
	t.Helper()
	is := regexp.MustCompile("(?m)^" + metric + `(?:\{[^}]*` + labels + `[^}]*\})? (\S+)$`)
	found := is.FindAllStringSubmatch(r.page(), -1)
	if found == nil {
		t.Errorf("there is no %s with %s", metric, labels)
	}
	for _, one := range found {
		n, _ := strconv.ParseFloat(one[1], 64) // it is a number
		sum += n
	}
	return sum
}

// peak is the most memory that the process had, in bytes; 0: the system does not say.
func (r *ownRelay) peak() int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.process.cmd.Process.Pid)) // of Linux
	found := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindStringSubmatch(string(text))
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseInt(found[1], 10, 64) // it is a number
	return n << 10
}

// buckets gives a histogram's counts up to each bound, as the page has them.
func (r *ownRelay) buckets(metric, labels string) string {
	var all []string
	for _, one := range regexp.MustCompile("(?m)^"+metric+`_bucket\{`+labels+`,le="([^"]+)"\} (\S+)$`).FindAllStringSubmatch(r.page(), -1) {
		all = append(all, "≤"+one[1]+"s: "+one[2])
	}
	return strings.Join(all, ", ")
}

// quantile of durations; 0: there are none.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(float64(len(all)-1)*q)]
}
