package restjson

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// event is what a poller told its owner.
type event struct {
	response  *Response
	names     []string
	unchanged bool
	err       error
}

// events is an owner that hands on what it is told.
type events chan event

func (e events) OnResponse(r *Response, names []string) error {
	e <- event{response: r, names: names}
	return nil
}
func (e events) OnUnchanged()      { e <- event{unchanged: true} }
func (e events) OnError(err error) { e <- event{err: err} }

// await gives the first event that cond holds for.
func (e events) await(tb testing.TB, cond func(event) bool) event {
	tb.Helper()
	limit := time.After(time.Minute)
	for {
		select {
		case got := <-e:
			if cond(got) {
				return got
			}
		case <-limit:
			tb.Fatal("what is awaited does not come")
		}
	}
}

// runPoller polls over real sockets until the test ends, and drops what is told
// after that.
func runPoller(tb testing.TB, client *http.Client, base, typeURL string, change func(*PollerConfig)) (*Poller, events) {
	tb.Helper()
	at, err := url.Parse(base)
	if err != nil {
		tb.Fatal(err)
	}
	own := client.Transport.(*http.Transport).Clone()
	tb.Cleanup(own.CloseIdleConnections)
	told := make(events)
	cfg := PollerConfig{
		Client: &http.Client{Transport: own}, Base: at, TypeURL: typeURL, Node: &corev3.Node{Id: "n"}, Names: []string{"*"}, FullState: true,
		Interval: time.Millisecond, Handler: told,
	}
	if change != nil {
		change(&cfg)
	}
	p, err := NewPoller(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		defer close(told)
		if err := p.Run(ctx); !errors.Is(err, context.Canceled) {
			tb.Errorf("Run: %v", err)
		}
	})
	tb.Cleanup(func() {
		cancel()
		for range told {
			// The poller is not to be stuck with somebody who listens no more.
		}
		running.Wait()
	})
	return p, told
}

// gateway serves go-control-plane's HTTPGateway as its own test server does: with
// no content type.
func gateway(tb testing.TB, snapshots cache.SnapshotCache) *httptest.Server {
	tb.Helper()
	g := serverv3.HTTPGateway{Server: serverv3.NewServer(tb.Context(), snapshots, nil)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, code, err := g.ServeHTTP(r)
		switch {
		case err != nil:
			http.Error(w, err.Error(), code)
		case body == nil:
			w.WriteHeader(http.StatusNotModified)
		default:
			_, _ = w.Write(body)
		}
	}))
	tb.Cleanup(s.Close)
	return s
}

func TestVAR5_goControlPlane(t *testing.T) {
	snapshots := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	set := func(version string) map[string]proto.Message {
		resources := map[string][]types.Resource{}
		messages := one()
		for typeURL, message := range messages {
			resources[typeURL] = []types.Resource{message}
		}
		snapshot, err := cache.NewSnapshot(version, resources)
		if err != nil {
			t.Fatal(err)
		}
		if err := snapshots.SetSnapshot(t.Context(), "n", snapshot); err != nil {
			t.Fatal(err)
		}
		return messages
	}
	messages := set("1")
	s := gateway(t, snapshots)
	told := map[string]events{}
	for typeURL := range messages {
		_, told[typeURL] = runPoller(t, s.Client(), s.URL, typeURL, func(c *PollerConfig) { c.Names = []string{"x"} })
	}
	check := func(version string) {
		for typeURL, message := range messages {
			got := told[typeURL].await(t, func(e event) bool {
				if e.err != nil {
					t.Errorf("%s: %v", typeURL, e.err)
				}
				return e.response != nil
			})
			if r := got.response; r.Version != version || len(r.Resources) != 1 || r.Resources[0].Name != "x" ||
				r.Resources[0].TypeURL() != typeURL || r.Discarded != "" {
				t.Errorf("%s: got %+v", typeURL, r)
			} else if want := stored(t, &discoveryv3.Resource{Resource: encoded.Any(message)}); !slices.Equal(r.Resources[0].Any(), want.Any()) {
				t.Errorf("%s: another payload", typeURL)
			}
			told[typeURL].await(t, func(e event) bool { return e.unchanged })
		}
	}
	check("1")
	set("2")
	check("2")

	snapshots.ClearSnapshot("n")
	failed := told[resource.ClusterType].await(t, func(e event) bool { return e.err != nil })
	if want := `HTTP status 500 (Internal Server Error): fetch error: missing snapshot for "n"`; failed.err.Error() != want {
		t.Errorf("REST-3: got  %v\nwant %s", failed.err, want)
	}
	set("2")
	back := told[resource.ClusterType].await(t, func(e event) bool { return e.response != nil })
	if back.response.Version != "2" {
		t.Errorf("ACK-4: after a failure: %+v", back)
	}
}

// held is a server of this package's own making: it holds a poll that presents a
// version until the poll is given up.
type held struct {
	tb      testing.TB
	holding chan []string // names of polls that are held
	givenUp chan []string // names of those that were given up
}

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := decodeRequest(w, r, 1<<20)
	if err != nil {
		WriteError(w, err)
		return
	}
	if req.GetVersionInfo() == "1" {
		h.holding <- req.GetResourceNames()
		<-r.Context().Done()
		h.givenUp <- req.GetResourceNames()
		return
	}
	out := &Outgoing{VersionInfo: "1", TypeURL: req.GetTypeUrl(), Nonce: "o", Wrapped: true}
	for _, name := range req.GetResourceNames() {
		out.Resources = append(out.Resources, OutgoingResource{Resource: stored(h.tb, &discoveryv3.Resource{Name: name, Resource: encoded.Any(endpoints(name))})})
	}
	encoded, err := EncodeResponse(out)
	if err != nil {
		WriteError(w, err)
		return
	}
	WriteResponse(w, &encoded.Body)
}

func TestREST1_heldPolls(t *testing.T) {
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run("VAR-5 REST-1 over "+proto, func(t *testing.T) {
			h := &held{tb: t, holding: make(chan []string, 1), givenUp: make(chan []string, 1)}
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Proto != proto {
					t.Errorf("%s and not %s", r.Proto, proto)
				}
				h.ServeHTTP(w, r)
			}))
			s.EnableHTTP2 = http2
			s.StartTLS()
			t.Cleanup(s.Close)

			p, told := runPoller(t, s.Client(), s.URL, resource.EndpointType, func(c *PollerConfig) { c.Names = []string{"a"} })
			names := func(e event) (all []string) {
				for _, r := range e.response.Resources {
					all = append(all, r.Name)
				}
				return all
			}
			for _, want := range [][]string{{"a"}, {"a", "b"}, {"b"}} {
				p.SetNames(want)
				got := told.await(t, func(e event) bool { return e.response != nil })
				if !slices.Equal(names(got), want) || !slices.Equal(got.names, want) {
					t.Errorf("%v for %v, want %v", names(got), got.names, want)
				}
				if polled := <-h.holding; !slices.Equal(polled, want) {
					t.Errorf("held for %v, want %v", polled, want)
				}
				p.SetNames([]string{fmt.Sprint("next to ", want)})
				if polled := <-h.givenUp; !slices.Equal(polled, want) {
					t.Errorf("given up for %v, want %v", polled, want)
				}
				told.await(t, func(e event) bool { return e.response != nil })
				<-h.holding
				p.SetNames(nil)
				<-h.givenUp
			}
		})
	}
}

// TestREST2_whatOurServerRefuses: a refusal arrives at our client as it was meant.
func TestREST2_whatOurServerRefuses(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := decodeRequest(w, r, 10)
		WriteError(w, err)
	}))
	t.Cleanup(s.Close)
	_, told := runPoller(t, s.Client(), s.URL, resource.EndpointType, nil)
	refused := told.await(t, func(e event) bool { return e.err != nil })
	if want := "HTTP status 413 (Request Entity Too Large): the body is larger than 10 bytes"; refused.err.Error() != want {
		t.Errorf("got  %v\nwant %s", refused.err, want)
	}
}

// TestREST3_serverGone: a server that goes away in the middle of a held poll.
func TestREST3_serverGone(t *testing.T) {
	h := &held{tb: t, holding: make(chan []string, 1), givenUp: make(chan []string, 1)}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	_, told := runPoller(t, s.Client(), s.URL, resource.EndpointType, func(c *PollerConfig) { c.Names = []string{"a"} })
	told.await(t, func(e event) bool { return e.response != nil })
	<-h.holding
	s.CloseClientConnections()
	gone := told.await(t, func(e event) bool { return e.err != nil })
	if _, ok := errors.AsType[*url.Error](gone.err); !ok {
		t.Errorf("got %v", gone.err)
	}
	<-h.givenUp
	back := told.await(t, func(e event) bool { return e.response != nil })
	if back.response.Version != "1" || len(back.response.Resources) != 1 {
		t.Errorf("ACK-4: got %+v", back.response)
	}
	<-h.holding
}

func ExampleReadResponse() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := decodeRequest(w, r, 1<<20)
		if err != nil {
			WriteError(w, err)
			return
		}
		if req.GetVersionInfo() == "1" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		encoded, err := EncodeResponse(&Outgoing{VersionInfo: "1", TypeURL: req.GetTypeUrl()})
		if err != nil {
			WriteError(w, err)
			return
		}
		WriteResponse(w, &encoded.Body)
	}))
	defer server.Close()
	base, err := url.Parse(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	poll := Poll{Node: &corev3.Node{Id: "n"}, TypeURL: resource.ClusterType}
	for range 2 {
		request, err := poll.NewRequest(context.Background(), base)
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, err := server.Client().Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		response, err := ReadResponse(answer, poll.TypeURL, 1<<20)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("version", response.Version)
		poll.VersionInfo = response.Version
	}
	// Output:
	// version 1
	// restjson: unchanged
}
