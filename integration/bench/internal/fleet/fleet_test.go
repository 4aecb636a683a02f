//go:build linux

package fleet

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T, s *plane.Script) string {
	t.Helper()
	lis, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(lis, grpc.WaitForHandlers(true))
	t.Cleanup(s.Stop)
	return lis.Addr().String()
}

func start(t *testing.T, c Config) *Fleet {
	t.Helper()
	f, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func catalogue(t *testing.T, sets ...content.Set) *content.Catalogue {
	t.Helper()
	c, err := content.NewCatalogue(sets...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func resource(t *testing.T, s content.Set, item, revision int) *discoveryv3.Resource {
	t.Helper()
	r, err := s.Resource(item, revision)
	if err != nil {
		t.Error(err)
	}
	return r
}

func everything(s content.Set) func(int) []Subscription {
	return func(int) []Subscription { return []Subscription{{TypeURL: s.TypeURL}} }
}

func await(t *testing.T, f *Fleet) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return f.Await(ctx)
}

// Against grpc-go: messages larger than a frame, several streams on a connection, and
// an acknowledgement of each response with its nonce.
func TestFleetTakesUpAndAcknowledgesResponses(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 300, Size: 1 << 10}
	names := catalogue(t, set)
	if err := names.Add(0, 7, 1); err != nil {
		t.Fatal(err)
	}
	update := make(chan struct{})
	addr := serve(t, &plane.Script{Delta: func(g plane.DeltaStream) error {
		first, err := g.Recv()
		if err != nil {
			return err
		}
		if first.GetNode().GetCluster() != "bench" || len(first.GetResourceNamesSubscribe()) != 1 || first.GetResourceNamesSubscribe()[0] != "*" {
			t.Errorf("the first request is %v", first)
		}
		all := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: set.TypeURL, Nonce: "all"}
		for item := range set.Count {
			all.Resources = append(all.Resources, resource(t, set, item, 0))
		}
		one := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: set.TypeURL, Nonce: "one", Resources: []*discoveryv3.Resource{resource(t, set, 7, 1)}}
		for _, r := range []*discoveryv3.DeltaDiscoveryResponse{all, one} {
			if err := g.Send(r); err != nil {
				return err
			}
			ack, err := g.Recv()
			if err != nil {
				return err
			}
			if ack.GetResponseNonce() != r.GetNonce() || ack.GetTypeUrl() != set.TypeURL || ack.GetErrorDetail() != nil {
				t.Errorf("the response %q is answered by %v", r.GetNonce(), ack)
			}
			<-update
		}
		<-g.Context().Done()
		return nil
	}})
	f := start(t, Config{Addr: addr, Catalogue: names, Loops: 2, Streams: 3})
	const clients = 10
	f.Add(clients, everything(set))
	if err := await(t, f); err != nil {
		t.Fatal(err)
	}
	if n := f.Latencies(0).Count(); n != clients {
		t.Errorf("%d clients have everything, expected %d", n, clients)
	}
	f.Target([]int{7}, 1)
	if f.Check() == nil {
		t.Error("the check passes before the update")
	}
	close(update)
	if err := await(t, f); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	if c := f.Counts(); c.Responses != 2*clients || c.Resources != clients*(set.Count+1) {
		t.Errorf("%+v was received, expected two responses by each of %d clients", c, clients)
	}
}

// A request larger than the server's windows is sent as they are widened.
func TestFleetKeepsToFlowControl(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 5000, Size: 10}
	versions, err := Versions(set, set.Count)
	if err != nil {
		t.Fatal(err)
	}
	if len(versions) < 3*firstWindow {
		t.Fatalf("the request has %d bytes, too few for this test", len(versions))
	}
	addr := serve(t, &plane.Script{Delta: func(g plane.DeltaStream) error {
		r, err := g.Recv()
		if err != nil {
			return err
		}
		if n := len(r.GetInitialResourceVersions()); n != set.Count {
			t.Errorf("%d versions are presented, expected %d", n, set.Count)
		}
		for item := range set.Count {
			want := resource(t, set, item, 0)
			if got := r.GetInitialResourceVersions()[want.GetName()]; got != want.GetVersion() {
				t.Fatalf("version %q of %s is presented, expected %q", got, want.GetName(), want.GetVersion())
			}
		}
		all := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: set.TypeURL, Nonce: "1"}
		for item := range set.Count {
			all.Resources = append(all.Resources, resource(t, set, item, 0))
		}
		if err := g.Send(all); err != nil {
			return err
		}
		<-g.Context().Done()
		return nil
	}})
	f := start(t, Config{Addr: addr, Catalogue: catalogue(t, set)})
	f.Add(2, func(int) []Subscription { return []Subscription{{TypeURL: set.TypeURL, Versions: versions}} })
	if err := await(t, f); err != nil {
		t.Fatal(err)
	}
}

// Who does not read is not waited for, and gets what is more than its window when it reads
// again.
func TestFleetWithAClientThatDoesNotRead(t *testing.T) {
	const clients = 2
	set := content.Set{TypeURL: content.ClusterType, Count: 300, Size: 1 << 10}
	arrived, paused := make(chan struct{}, clients), make(chan struct{})
	addr := serve(t, &plane.Script{Delta: func(g plane.DeltaStream) error {
		if _, err := g.Recv(); err != nil {
			return err
		}
		arrived <- struct{}{}
		<-paused
		for item := range set.Count {
			if err := g.Send(&discoveryv3.DeltaDiscoveryResponse{
				TypeUrl: set.TypeURL, Nonce: "1", Resources: []*discoveryv3.Resource{resource(t, set, item, 0)},
			}); err != nil {
				return err
			}
		}
		<-g.Context().Done()
		return nil
	}})
	f := start(t, Config{Addr: addr, Catalogue: catalogue(t, set), Window: 64 << 10})
	f.Add(clients, everything(set))
	for range clients {
		<-arrived
	}
	err := f.Pause(1)
	close(paused)
	if err := errors.Join(err, await(t, f)); err != nil {
		t.Fatal(err)
	}
	if err := f.Check(); err == nil || !strings.Contains(err.Error(), "client 1 holds") {
		t.Errorf("without reading, the check gives %v, expected that client 1 lacks something", err)
	}
	if err := errors.Join(f.Resume(), await(t, f), f.Check()); err != nil {
		t.Error(err)
	}
	if n := f.Counts().Resources; n != clients*set.Count {
		t.Errorf("%d resources were received, expected %d", n, clients*set.Count)
	}
}

// What a client would have to reject, and what it cannot go on after, ends the wait.
func TestFleetNoticesWhatIsWrong(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 2, Size: 100}
	other := content.Set{TypeURL: content.ClusterType, Count: 3, Size: 100}
	for name, c := range map[string]struct {
		change func(*discoveryv3.DeltaDiscoveryResponse)
		end    error
		want   string
	}{
		"another payload": {
			change: func(r *discoveryv3.DeltaDiscoveryResponse) { r.Resources[0].Resource.Value[5] ^= 1 },
			want:   "that no server was given",
		},
		"the payload of another": {
			change: func(r *discoveryv3.DeltaDiscoveryResponse) {
				r.Resources[0].Resource, r.Resources[1].Resource = r.Resources[1].Resource, r.Resources[0].Resource
			},
			want: `"cluster-000000" comes with the payload of "cluster-000001"`,
		},
		"another version": {
			change: func(r *discoveryv3.DeltaDiscoveryResponse) { r.Resources[1].Version = "old" },
			want:   `"cluster-000001" comes as version "old"`,
		},
		"no version": {
			change: func(r *discoveryv3.DeltaDiscoveryResponse) { r.Resources[1].Version = "" },
			want:   `"cluster-000001" comes as version ""`,
		},
		"a name that does not exist": {
			change: func(r *discoveryv3.DeltaDiscoveryResponse) { r.Resources[1] = resource(t, other, 2, 0) },
			want:   `for "cluster-000002" that no server was given`,
		},
		"the removal of a name that does not exist": {
			change: func(r *discoveryv3.DeltaDiscoveryResponse) { r.RemovedResources = []string{"cluster-9"} },
			want:   `the removal of "cluster-9"`,
		},
		"the end of the stream": {end: status.Error(codes.Unavailable, "away"), want: `gRPC status 14 "away"`},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, &plane.Script{Delta: func(g plane.DeltaStream) error {
				if c.end != nil {
					return c.end
				}
				r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: set.TypeURL, Nonce: "1"}
				for item := range set.Count {
					r.Resources = append(r.Resources, resource(t, set, item, 0))
				}
				c.change(r)
				if err := g.Send(r); err != nil {
					return err
				}
				<-g.Context().Done()
				return nil
			}})
			f := start(t, Config{Addr: addr, Catalogue: catalogue(t, set)})
			f.Add(1, everything(set))
			if err := await(t, f); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, expected %q", err, c.want)
			}
		})
	}
}

// A removal leaves a client without what it should hold.
func TestFleetNoticesARemoval(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 1, Size: 100}
	addr := serve(t, &plane.Script{Delta: func(g plane.DeltaStream) error {
		r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: set.TypeURL, Nonce: "1", Resources: []*discoveryv3.Resource{resource(t, set, 0, 0)}}
		if err := g.Send(r); err != nil {
			return err
		}
		r = &discoveryv3.DeltaDiscoveryResponse{TypeUrl: set.TypeURL, Nonce: "2", RemovedResources: []string{set.Name(0)}}
		if err := g.Send(r); err != nil {
			return err
		}
		return status.Error(codes.Aborted, "enough")
	}})
	f := start(t, Config{Addr: addr, Catalogue: catalogue(t, set)})
	f.Add(1, everything(set))
	_ = await(t, f) // the addition may be seen alone, or the end as well
	for f.err() == nil {
		// until the end of the stream has arrived, and so what was before it
	}
	if err := f.Check(); err == nil || !strings.Contains(err.Error(), `holds revision 0 of "cluster-000000"`) {
		t.Errorf("the check says %v, expected that the cluster is missing", err)
	}
}

// In the state of the world a response has to hold everything, and is acknowledged
// with its version.
func TestFleetInTheStateOfTheWorld(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 3, Size: 100}
	for count, want := range map[int]string{3: "", 2: "a list of 2 resources, there are 3"} {
		addr := serve(t, &plane.Script{State: func(g plane.StateStream) error {
			if first, err := g.Recv(); err != nil || len(first.GetResourceNames()) != 0 {
				t.Errorf("the first request is %v, %v", first, err)
			}
			r := &discoveryv3.DiscoveryResponse{TypeUrl: set.TypeURL, VersionInfo: "v", Nonce: "n"}
			for item := range count {
				r.Resources = append(r.Resources, resource(t, set, item, 0).GetResource())
			}
			if err := g.Send(r); err != nil {
				return err
			}
			if ack, err := g.Recv(); err == nil && (ack.GetVersionInfo() != "v" || ack.GetResponseNonce() != "n") {
				t.Errorf("the response is answered by %v", ack)
			}
			<-g.Context().Done()
			return nil
		}})
		f := start(t, Config{Addr: addr, Catalogue: catalogue(t, set), State: true})
		f.Add(1, everything(set))
		switch err := await(t, f); {
		case want == "" && err != nil:
			t.Errorf("a list of everything: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("the error is %v, expected %q", err, want)
		}
	}
}

func TestFrames(t *testing.T) {
	whole := appendWindowUpdate(nil, 3, 77)
	for n := range whole {
		if _, _, ok, err := cutFrame(whole[:n]); ok || err != nil {
			t.Fatalf("%d of %d bytes of a frame are taken for one: %v", n, len(whole), err)
		}
	}
	f, rest, ok, err := cutFrame(append(whole, 1, 2))
	if !ok || err != nil || f.stream != 3 || !bytes.Equal(rest, []byte{1, 2}) {
		t.Errorf("the frame is %+v, the rest %v, %v", f, rest, err)
	}
	if _, _, _, err := cutFrame([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1}); err == nil {
		t.Error("a frame of 64 KiB is taken")
	}
	for name, c := range map[string]struct {
		f    frame
		want []byte
	}{
		"plain":                 {frame{payload: []byte{1, 2}}, []byte{1, 2}},
		"padded":                {frame{flags: padded, payload: []byte{2, 1, 0, 0}}, []byte{1}},
		"more padding than all": {frame{flags: padded, payload: []byte{3, 1, 0, 0}}, []byte{}},
		"headers with priority": {frame{kind: 1, flags: hasPriority, payload: []byte{0, 0, 0, 0, 0, 9}}, []byte{9}},
	} {
		if got, err := c.f.body(); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: the payload is %v, %v, expected %v", name, got, err, c.want)
		}
	}
	for _, f := range []frame{{flags: padded}, {flags: padded, payload: []byte{1}}, {kind: 1, flags: hasPriority, payload: []byte{1}}} {
		if _, err := f.body(); err == nil {
			t.Errorf("the frame %+v is taken", f)
		}
	}
}

// The others stay, and so does what is expected of them; a client that comes then takes the place of the one that left.
func TestClientsLeave(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 3, Size: 100}
	left := make(chan struct{}, 4)
	addr := serve(t, &plane.Script{Delta: func(g plane.DeltaStream) error {
		defer func() { left <- struct{}{} }()
		if _, err := g.Recv(); err != nil {
			return err
		}
		r := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: set.TypeURL, Nonce: "n"}
		for item := range set.Count {
			r.Resources = append(r.Resources, resource(t, set, item, 0))
		}
		if err := g.Send(r); err != nil {
			return err
		}
		<-g.Context().Done()
		return nil
	}})
	f := start(t, Config{Addr: addr, Catalogue: catalogue(t, set), Loops: 2})
	for range 2 {
		f.Add(3-f.clients, everything(set))
		if err := await(t, f); err != nil {
			t.Fatal(err)
		}
		f.Leave(2)
		<-left
		if err := f.Check(); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-left:
		t.Error("more streams ended than clients left")
	default:
	}
	if n := f.Latencies(0).Count(); n != 2 {
		t.Errorf("%d clients have everything, expected the two that stayed", n)
	}
}
