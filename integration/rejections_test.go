package integration

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// A path is how clients reach a control plane.
type path struct {
	client xdsclient.Form
	api    config.APIType // of the relay between them; "": there is none
}

func (p path) String() string {
	form := "incremental"
	if p.client == xdsclient.SotW {
		form = "state of the world"
	}
	if p.api == "" {
		return form + ", direct"
	}
	return fmt.Sprint(form, ", relay with ", p.api)
}

var paths = []path{
	{client: xdsclient.Incremental},
	{client: xdsclient.SotW},
	{xdsclient.Incremental, config.AggregatedDeltaGRPC},
	{xdsclient.Incremental, config.AggregatedGRPC},
	{xdsclient.SotW, config.AggregatedDeltaGRPC},
	{xdsclient.SotW, config.AggregatedGRPC},
}

// reach gives the address at which clients reach a control plane: its own, or that of a relay as it is by default.
func (p path) reach(t *testing.T, addr string) string {
	t.Helper()
	if p.api == "" {
		return addr
	}
	return startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = p.api }, addr).addr
}

// judge is a client of clusters that rejects some.
type judge struct {
	*xdsclient.Client

	mu       sync.Mutex
	rejected []time.Time
	most     int // times that it rejects something; 0: always
}

// senseless is a cluster that a judge rejects.
func senseless(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, AltStatName: "senseless"}
}

// newJudge starts a client that rejects what is senseless, so many times.
func newJudge(t *testing.T, form xdsclient.Form, addr, node string, most int) *judge {
	t.Helper()
	j, conn := &judge{most: most}, dial(t, addr)
	t.Cleanup(func() { _ = conn.Close() })
	j.Client = xdsclient.New(xdsclient.Options{Form: form, Conn: conn, Node: &corev3.Node{Id: node}, OnResponse: func(r *xdsclient.Response) error {
		for _, ch := range r.Changes {
			if ch.Resource != nil && bytes.Contains(ch.Resource.Any(), []byte("senseless")) {
				j.mu.Lock()
				defer j.mu.Unlock()
				if j.most > 0 && len(j.rejected) == j.most {
					continue
				}
				j.rejected = append(j.rejected, time.Now())
				return errors.New(ch.Name + " makes no sense")
			}
		}
		return r.Err
	}})
	j.Subscribe(clusterType)
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() { _ = j.Run(t.Context()) })
	return j
}

func (j *judge) rejections() []time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.rejected)
}

// A control plane that is not told otherwise learns what clients reject, through a relay as it is by default as from
// the clients. It sends nothing more of a type before it has an answer.
func TestRejectionReachesServer_ACK7(t *testing.T) {
	for _, p := range paths {
		t.Run(p.String(), func(t *testing.T) {
			cp := plane.Start(t, plane.GoControlPlane())
			cp.Set(&clusterv3.Cluster{Name: "c1"})
			j := newJudge(t, p.client, p.reach(t, cp.Addr()), "picky", 0)
			told := func() []string { return cp.Rejections(clusterType) }
			answered := func() bool { sent, open := cp.Progress(); return sent > 0 && open == 0 }
			waitFor(t, "the first cluster is acknowledged", answered)
			cp.Set(senseless("c2"))
			waitFor(t, "the rejection at the control plane", func() bool { return len(told()) > 0 })
			if got := told(); len(got) != 1 || !strings.HasSuffix(got[0], "c2 makes no sense") {
				t.Errorf("the control plane is told %q", got)
			}
			cp.Set(&clusterv3.Cluster{Name: "c2"})
			cp.Set(&clusterv3.Cluster{Name: "c3"})
			waitFor(t, "what follows is acknowledged", func() bool { return holds(j, "c1", "c2", "c3") && answered() })
			if got := told(); len(got) != 1 {
				t.Errorf("the control plane is told %q of what is good", got)
			}
		})
	}
}

// holds reports whether a client holds clusters of these names.
func holds(j *judge, names ...string) bool {
	held := j.Versions(clusterType)
	for _, name := range names {
		if _, is := held[name]; !is {
			return false
		}
	}
	return len(held) == len(names)
}

// A client that withholds its answers keeps the next change from the others for nack_wait at most (ACK-7).
func TestWithheldAnswersDelayOnce_ACK7(t *testing.T) {
	for _, p := range paths {
		if p.api == "" {
			continue // then it is kept from that client alone
		}
		t.Run(p.String(), func(t *testing.T) {
			cp := plane.Start(t, plane.GoControlPlane())
			cp.Set(&clusterv3.Cluster{Name: "c0"})
			j := newJudge(t, p.client, p.reach(t, cp.Addr()), "slow", 0)
			waitFor(t, "the first cluster", func() bool { return holds(j, "c0") })
			j.HoldAcks(true)
			var late int
			for i := range 10 {
				before, _ := cp.Progress()
				began := time.Now()
				cp.Set(&clusterv3.Cluster{Name: fmt.Sprint("c", i+1)})
				waitFor(t, "the change goes out and is acknowledged", func() bool { sent, open := cp.Progress(); return sent > before && open == 0 })
				if time.Since(began) > 400*time.Millisecond {
					late++
				}
			}
			if late > 3 {
				t.Errorf("%d of ten changes waited for the client, want at most 3", late)
			}
		})
	}
}

// insistent is a server that sends a cluster, and whenever that is rejected the same again, with another nonce and, in
// the state of the world, another version.
type insistent struct {
	plane.Script

	mu    sync.Mutex
	nacks []time.Time
	acks  int
}

func newInsistent(t *testing.T) (s *insistent, addr string) {
	t.Helper()
	s = new(insistent)
	content, err := anypb.New(senseless("c"))
	if err != nil {
		t.Fatal(err)
	}
	s.Delta = func(g plane.DeltaStream) error {
		for n := 1; ; n++ {
			r, err := g.Recv()
			if err != nil {
				return err
			}
			if r.GetTypeUrl() == clusterType && s.answers(r.GetResponseNonce() != "", r.GetErrorDetail() != nil) {
				err = g.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: clusterType, Nonce: fmt.Sprint(n), Resources: []*discovery.Resource{
					{Name: "c", Version: "1", Resource: content},
				}})
			}
			if err != nil {
				return err
			}
		}
	}
	s.State = func(g plane.StateStream) error {
		for n := 1; ; n++ {
			r, err := g.Recv()
			if err != nil {
				return err
			}
			if r.GetTypeUrl() == clusterType && s.answers(r.GetResponseNonce() != "", r.GetErrorDetail() != nil) {
				err = g.Send(&discovery.DiscoveryResponse{
					TypeUrl: clusterType, VersionInfo: fmt.Sprint(n), Nonce: fmt.Sprint(n), Resources: []*anypb.Any{content},
				})
			}
			if err != nil {
				return err
			}
		}
	}
	lis := ports.Listen(t)
	s.Serve(lis)
	t.Cleanup(s.Stop)
	return s, lis.Addr().String()
}

// answers takes a request, and reports whether the cluster goes out.
func (s *insistent) answers(answer, rejects bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case rejects:
		s.nacks = append(s.nacks, time.Now())
	case answer:
		s.acks++
	}
	return rejects || !answer
}

func (s *insistent) told() (nacks []time.Time, acks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.nacks), s.acks
}

// What a server sends again after a rejection reaches the client again, and the server learns what the client says
// then (ACK-3, ACK-7). Through a relay the client is offered it at growing intervals, and the server told once a
// second (SUR-8).
func TestSentAgainAfterRejection_ACK3_ACK7_SUR8(t *testing.T) {
	t.Parallel()
	const most = 3
	for _, p := range paths {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			server, addr := newInsistent(t)
			j := newJudge(t, p.client, p.reach(t, addr), "picky", most)
			waitFor(t, "the client has what it rejected, and the server learns of it", func() bool {
				_, acks := server.told()
				return holds(j, "c") && acks > 0
			})
			nacks, acks := server.told()
			if len(nacks) != most || acks != 1 {
				t.Errorf("%d NACKs and %d ACKs, want %d and 1", len(nacks), acks, most)
			}
			if p.api == "" {
				return
			}
			for i := 1; i < len(nacks); i++ {
				if gap := nacks[i].Sub(nacks[i-1]); gap < 990*time.Millisecond {
					t.Errorf("a NACK of the same content follows after %v", gap)
				}
			}
			if offers := j.rejections(); offers[1].Sub(offers[0]) < 90*time.Millisecond {
				t.Errorf("the client is offered it again after %v", offers[1].Sub(offers[0]))
			}
		})
	}
}
