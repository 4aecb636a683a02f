package downstream

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	clusterPath  = "/v3/discovery:clusters"
	endpointPath = "/v3/discovery:endpoints"

	v2ClusterPath = "/v2/discovery:clusters"
	v2ClusterType = "type.googleapis.com/envoy.api.v2.Cluster"

	// restWait is how long polls are held in the tests, at most.
	restWait = 20 * time.Second
)

// restBubble runs f against a server that holds polls.
func restBubble(t *testing.T, f func(h *harness), change ...func(*Config)) {
	t.Helper()
	bubble(t, f, append([]func(*Config){func(c *Config) { c.RESTWait = restWait }}, change...)...)
}

// real gives names a version, in one response, with payloads that JSON can be made
// of; they tell the version.
func (p *plane) real(typeURL, version string, names ...string) {
	p.tb.Helper()
	p.put(typeURL, p.reals(typeURL, version, names...)...)
}

// restore gives the store what it had of an earlier process, by names and as members of "*".
func (p *plane) restore(typeURL, version string, names ...string) {
	p.tb.Helper()
	image := new(cache.Image)
	for _, kind := range []cache.Kind{cache.ByName, cache.WholeType} {
		table := cache.TableImage{TypeURL: typeURL, Kind: kind}
		if kind == cache.ByName {
			table.Names = names
		} else {
			table.Collections = []string{cache.Wildcard}
		}
		for _, r := range p.reals(typeURL, version, names...) {
			table.Resources = append(table.Resources, cache.ResourceImage{Resource: p.wire(r).AsRestored(), Received: time.Now()})
		}
		image.Tables = append(image.Tables, table)
	}
	p.store.Snapshots().Restore(image, time.Now())
}

func (p *plane) reals(typeURL, version string, names ...string) []*discovery.Resource {
	p.tb.Helper()
	all := make([]*discovery.Resource, 0, len(names))
	for _, name := range names {
		var m proto.Message
		switch typeURL {
		case clusterType:
			m = &clusterv3.Cluster{Name: name, AltStatName: version}
		case endpointType:
			m = &endpointv3.ClusterLoadAssignment{ClusterName: name, NamedEndpoints: map[string]*endpointv3.Endpoint{version: {}}}
		case listenerType:
			m = &listenerv3.Listener{Name: name, StatPrefix: version}
		default:
			p.tb.Fatalf("no payloads of %s", typeURL)
		}
		packed, err := anypb.New(m)
		p.must(err)
		all = append(all, &discovery.Resource{Name: name, Version: version, Resource: packed})
	}
	return all
}

// restPoller is a client that polls one type, one poll at a time.
type restPoller struct {
	h    *harness
	path string
	next discovery.DiscoveryRequest

	cancel context.CancelFunc
	done   chan struct{} // closed when the poll is answered
	answer *httptest.ResponseRecorder
	took   time.Duration
}

func (h *harness) poller(path string, names ...string) *restPoller {
	return &restPoller{h: h, path: path, next: discovery.DiscoveryRequest{Node: node("n"), ResourceNames: names}}
}

// poll asks, and goes on when nothing moves any more.
func (p *restPoller) poll() *restPoller {
	p.h.Helper()
	body, err := protojson.Marshal(&p.next)
	if err != nil {
		p.h.Fatal(err)
	}
	p.post(body)
	return p
}

func (p *restPoller) post(body []byte) {
	p.h.Helper()
	if p.done != nil {
		select {
		case <-p.done:
		default:
			p.h.Fatal("the poll before is not answered")
		}
	}
	ctx, cancel := context.WithCancel(p.h.Context())
	done, answer, began := make(chan struct{}), httptest.NewRecorder(), time.Now()
	p.cancel, p.done, p.answer = cancel, done, answer
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, p.path, bytes.NewReader(body))
	r.Header.Set("User-Agent", p.h.agent)
	handler := p.h.server.REST()
	go func() {
		defer close(done)
		handler.ServeHTTP(answer, r)
		p.took = time.Since(began)
	}()
	p.h.shutdown = append(p.h.shutdown, func() {
		cancel()
		<-done
	})
	p.h.quiet()
}

// isHeld holds that the poll is not answered.
func (p *restPoller) isHeld() {
	p.h.Helper()
	p.h.quiet()
	select {
	case <-p.done:
		p.h.Errorf("the poll is answered: %d %s", p.answer.Code, p.answer.Body)
	default:
	}
}

// wants holds the answer to names and versions, "" for 304. What is accepted is
// presented by the next poll.
func (p *restPoller) wants(want string) *discovery.DiscoveryResponse {
	p.h.Helper()
	p.h.advance(mergeTime)
	select {
	case <-p.done:
	default:
		p.h.Fatalf("the poll is held, want %q", want)
	}
	if p.answer.Code == http.StatusNotModified {
		if want != "304" {
			p.h.Errorf("the poll got 304, want %q", want)
		}
		if p.answer.Body.Len() > 0 {
			p.h.Errorf("304 has a body: %s", p.answer.Body)
		}
		return nil
	}
	if p.answer.Code != http.StatusOK {
		p.h.Fatalf("the poll got %d %s, want %q", p.answer.Code, p.answer.Body, want)
	}
	r := new(discovery.DiscoveryResponse)
	if err := protojson.Unmarshal(p.answer.Body.Bytes(), r); err != nil {
		p.h.Fatalf("%s: %v", p.answer.Body, err)
	}
	if got := tellREST(p.h, r); got != want {
		p.h.Errorf("the poll got %q, want %q", got, want)
	}
	p.next.ErrorDetail = nil
	return r
}

// accepts is wants for a client that takes what it gets.
func (p *restPoller) accepts(want string) *discovery.DiscoveryResponse {
	p.h.Helper()
	r := p.wants(want)
	if r != nil {
		p.next.VersionInfo, p.next.ResponseNonce = r.VersionInfo, r.Nonce
	}
	return r
}

// rejects is wants for a client that does not.
func (p *restPoller) rejects(want, why string) {
	p.h.Helper()
	if r := p.wants(want); r != nil {
		p.next.ResponseNonce = r.Nonce
		p.next.ErrorDetail = &status.Status{Code: int32(codes.InvalidArgument), Message: why}
	}
}

// refusedWith holds the answer to an error, to the letter.
func (p *restPoller) refusedWith(code int, message string) {
	p.h.Helper()
	p.h.advance(mergeTime)
	select {
	case <-p.done:
	default:
		p.h.Fatal("the poll is held")
	}
	s := new(status.Status)
	if err := protojson.Unmarshal(p.answer.Body.Bytes(), s); err != nil || p.answer.Code != code || s.GetMessage() != message {
		p.h.Errorf("the poll got %d %s, want %d %q", p.answer.Code, p.answer.Body, code, message)
	}
}

// tellREST writes a response in one line, sorted.
func tellREST(tb testing.TB, r *discovery.DiscoveryResponse) string {
	tb.Helper()
	var all []string
	for _, packed := range r.Resources {
		m, err := packed.UnmarshalNew()
		if err != nil {
			tb.Fatal(err)
		}
		switch m := m.(type) {
		case *clusterv3.Cluster:
			all = append(all, m.Name+"="+m.AltStatName)
		case *listenerv3.Listener:
			all = append(all, m.Name+"="+m.StatPrefix)
		case *endpointv3.ClusterLoadAssignment:
			for version := range m.NamedEndpoints {
				all = append(all, m.ClusterName+"="+version)
			}
		case *discovery.Resource:
			all = append(all, m.Name+"@"+m.Version)
		default:
			tb.Fatalf("a %T", m)
		}
	}
	slices.Sort(all)
	all = append(all, tellErrors(r.ResourceErrors)...)
	return "200 " + strings.Join(all, " ")
}
