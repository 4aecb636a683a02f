package integration

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// variantPlane is a control plane that has variants of resources and matches dynamic
// parameters itself (DYN-1), over ADS in both forms. What it sends first and in which
// request it was asked does not matter to what its client holds in the end.
type variantPlane struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer

	addr string

	mu      sync.Mutex
	version int
	names   map[string][]planeVariant // of clusters
	streams map[*variantStream]struct{}
	opened  int
	asked   []string // every locator that was subscribed to, as "name map[key:value]"
}

// planeVariant is one variant. match is the meaning of its constraints.
type planeVariant struct {
	constraints *discovery.DynamicParameterConstraints
	match       func(parameters map[string]string) bool
	version     int
}

// variantStream is one stream. plane.mu guards it.
type variantStream struct {
	state bool
	send  chan proto.Message
	subs  map[string]*discovery.ResourceLocator
	sent  map[string]sentVariant // incremental: what the client has, by name and constraints
	nonce int
}

type sentVariant struct {
	name    *discovery.ResourceName
	version int
}

func newVariantPlane(t *testing.T) *variantPlane {
	t.Helper()
	p := &variantPlane{names: make(map[string][]planeVariant), streams: make(map[*variantStream]struct{})}
	lis := ports.Listen(t)
	p.addr = lis.Addr().String()
	s := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(s, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(lis) // ends with Stop
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return p
}

// mustBe is a variant for all of the given parameters: "env=prod version=v1".
func mustBe(text string) planeVariant {
	want := parameters(text)
	var list []*discovery.DynamicParameterConstraints
	for _, key := range slices.Sorted(maps.Keys(want)) {
		list = append(list, &discovery.DynamicParameterConstraints{Type: &discovery.DynamicParameterConstraints_Constraint{
			Constraint: &discovery.DynamicParameterConstraints_SingleConstraint{
				Key: key, ConstraintType: &discovery.DynamicParameterConstraints_SingleConstraint_Value{Value: want[key]},
			},
		}})
	}
	return planeVariant{
		constraints: &discovery.DynamicParameterConstraints{Type: &discovery.DynamicParameterConstraints_AndConstraints{
			AndConstraints: &discovery.DynamicParameterConstraints_ConstraintList{Constraints: list},
		}},
		match: func(given map[string]string) bool {
			for key, value := range want {
				if given[key] != value {
					return false
				}
			}
			return true
		},
	}
}

func parameters(text string) map[string]string {
	p := make(map[string]string)
	for pair := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(pair, "=")
		p[key] = value
	}
	return p
}

// set replaces all variants of a name, and tells everybody in one response.
func (p *variantPlane) set(name string, variants ...planeVariant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version++
	for i := range variants {
		variants[i].version = p.version
	}
	p.names[name] = variants
	for st := range p.streams {
		p.answer(st, nil)
	}
}

func (p *variantPlane) resource(name string, v planeVariant) *discovery.Resource {
	return &discovery.Resource{
		Version: strconv.Itoa(v.version), ResourceName: resourceNameOf(name, v),
		Resource: &anypb.Any{TypeUrl: clusterType, Value: contents(clusterType, name, fmt.Sprint(v.version, v.constraints), "")},
	}
}

func resourceNameOf(name string, v planeVariant) *discovery.ResourceName {
	return &discovery.ResourceName{Name: name, DynamicParameterConstraints: v.constraints}
}

// answer sends what a stream lacks; again is what was subscribed to just now.
func (p *variantPlane) answer(st *variantStream, again map[string]bool) {
	st.nonce++
	r := &discovery.DeltaDiscoveryResponse{TypeUrl: clusterType, Nonce: strconv.Itoa(st.nonce)}
	full := &discovery.DiscoveryResponse{TypeUrl: clusterType, Nonce: r.GetNonce(), VersionInfo: strconv.Itoa(p.version)}
	has := make(map[string]sentVariant)
	for _, key := range slices.Sorted(maps.Keys(st.subs)) {
		l := st.subs[key]
		found := false
		for _, v := range p.names[l.GetName()] {
			if !v.match(l.GetDynamicParameters()) {
				continue
			}
			found = true
			id := fmt.Sprint(l.GetName(), v.constraints)
			if has[id].name != nil {
				continue
			}
			has[id] = sentVariant{resourceNameOf(l.GetName(), v), v.version}
			if st.sent[id].version != v.version || again[key] {
				r.Resources = append(r.Resources, p.resource(l.GetName(), v))
			}
			packed, err := anypb.New(p.resource(l.GetName(), v))
			if err != nil {
				panic(err)
			}
			full.Resources = append(full.Resources, packed)
		}
		if !found && again[key] && !slices.Contains(r.GetRemovedResources(), l.GetName()) {
			r.RemovedResources = append(r.RemovedResources, l.GetName())
		}
	}
	for id, was := range st.sent {
		if has[id].name == nil {
			r.RemovedResourceNames = append(r.RemovedResourceNames, was.name)
		}
	}
	st.sent = has
	switch {
	case st.state:
		st.send <- full
	case len(r.GetResources())+len(r.GetRemovedResources())+len(r.GetRemovedResourceNames()) > 0:
		st.send <- r
	}
}

func (p *variantPlane) begin(state bool) (st *variantStream, end func()) {
	st = &variantStream{state: state, send: make(chan proto.Message, 1<<10), subs: make(map[string]*discovery.ResourceLocator)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[st] = struct{}{}
	p.opened++
	return st, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.streams, st)
	}
}

func key(l *discovery.ResourceLocator) string {
	return fmt.Sprint(l.GetName(), " ", l.GetDynamicParameters())
}

// pump sends until the stream ends.
func pump(st *variantStream, send func(proto.Message) error, received <-chan error) error {
	for {
		select {
		case m := <-st.send:
			if err := send(m); err != nil {
				return err
			}
		case err := <-received:
			return err
		}
	}
}

// DeltaAggregatedResources implements ADS.
func (p *variantPlane) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	st, end := p.begin(false)
	defer end()
	received := make(chan error, 1)
	go func() {
		for {
			r, err := g.Recv()
			if err != nil {
				received <- err
				return
			}
			p.mu.Lock()
			again := make(map[string]bool)
			for _, l := range r.GetResourceLocatorsUnsubscribe() {
				delete(st.subs, key(l))
			}
			for _, l := range r.GetResourceLocatorsSubscribe() {
				st.subs[key(l)], again[key(l)] = l, true
				p.asked = append(p.asked, key(l))
			}
			if len(again) > 0 {
				p.answer(st, again)
			}
			p.mu.Unlock()
		}
	}()
	return pump(st, func(m proto.Message) error { return g.SendMsg(m) }, received)
}

// StreamAggregatedResources implements ADS.
func (p *variantPlane) StreamAggregatedResources(g discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	st, end := p.begin(true)
	defer end()
	received := make(chan error, 1)
	go func() {
		for {
			r, err := g.Recv()
			if err != nil {
				received <- err
				return
			}
			p.mu.Lock()
			before := slices.Sorted(maps.Keys(st.subs))
			clear(st.subs)
			for _, l := range r.GetResourceLocators() {
				st.subs[key(l)] = l
				if !slices.Contains(before, key(l)) {
					p.asked = append(p.asked, key(l))
				}
			}
			if !slices.Equal(before, slices.Sorted(maps.Keys(st.subs))) {
				p.answer(st, nil)
			}
			p.mu.Unlock()
		}
	}()
	return pump(st, func(m proto.Message) error { return g.SendMsg(m) }, received)
}
