package downstream

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// fuzzLimit is the limit of a response in FuzzRequest: small, so that responses
// are split.
const fuzzLimit = headerRoom + 512

// FuzzRequest sends a stream any sequence of requests. It must never panic, must
// answer with nothing but sound responses, and must go on or end with a status
// that says why.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"",
		"\x00\x00\x00", // legacy wildcard
		"\x00\x00\x00\x00\x00\x01\x00\x40\x02\x04\x00\x00",         // ACK, NACK, no type
		"\x00\x01\x00\x01\x00\x05\x01\x01\x02\x00\x0a\x00\x01\x02", // names and "*", both ways
		"\x00\x33\x00\x06\x07\x08\x02\x0c\x06\x00\x04\x01\x07",     // globs, spellings, versions
		"\x01\x03\x00\x0a\x0b\x0d\x03\x01\x00\x11\x03xyz",          // refused names, a raw one
		"\x00\x01\x00\x0f", // an absurd name
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, f := range []form{deltaForm, stateForm} {
			synctest.Test(t, func(t *testing.T) { fuzzStream(t, f, data) })
		}
	})
}

// fuzzTypes and fuzzNames are what the fuzzer's requests speak of, beside strings
// of its own.
var (
	fuzzTypes = []string{clusterType, endpointType, unknownType, clusterType, "", strings.Repeat("x", maxTypeURL+1)}
	fuzzNames = []string{
		cache.Wildcard, "a", "b", "c", "gone",
		ofA("d/1"), ofA("d/*"), ofA("d/1?p=1&q=2"), ofA("d/1?q=2&p=1"), ofA("d/*?q=2&p=1"),
		"xdstp:", "xdstp://b/envoy.config.cluster.v3.Cluster/x", "XDSTP://a/" + endpointType, ofA("%zz"), ofA("x#alt=xdstp://b/y"),
		strings.Repeat("x", maxNameLength+1), "",
	}
)

// script reads requests out of the fuzzer's bytes.
type script []byte

func (s *script) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// word gives one of known, or a string of the fuzzer's own.
func (s *script) word(known []string) string {
	i := s.next()
	if i < len(known) {
		return known[i]
	}
	n := min(s.next(), len(*s))
	raw := string((*s)[:n])
	*s = (*s)[n:]
	return strings.ToValidUTF8(raw, "?")
}

func (s *script) words(n int) []string {
	var all []string
	for range n {
		all = append(all, s.word(fuzzNames))
	}
	return all
}

// request gives the next request: its type, how much of what is in it, its nonce,
// and its names.
func (s *script) request() *request {
	r := &request{TypeUrl: s.word(fuzzTypes)}
	shape := s.next()
	if nonce := s.next(); nonce > 0 {
		r.ResponseNonce = strconv.Itoa(nonce)
	}
	r.ResourceNamesSubscribe = s.words(shape & 3)
	r.ResourceNamesUnsubscribe = s.words(shape >> 2 & 3)
	for _, name := range s.words(shape >> 4 & 3) {
		if r.InitialResourceVersions == nil {
			r.InitialResourceVersions = map[string]string{}
		}
		r.InitialResourceVersions[name] = strconv.Itoa(s.next())
	}
	if shape>>6&1 == 1 {
		r.ErrorDetail = &rpcstatus.Status{Code: 3, Message: "no"}
	}
	if shape>>7 == 1 {
		r.Node = &corev3.Node{Id: "n"}
	}
	return r
}

// state gives the same as a state-of-the-world request: what is to be had, or to be
// had no more, is named alike.
func (r *scripted) state() *stateRequestMsg {
	s := &stateRequestMsg{
		Node: r.Node, TypeUrl: r.TypeUrl, ResponseNonce: r.ResponseNonce, ErrorDetail: r.ErrorDetail,
		ResourceNames: append(r.ResourceNamesSubscribe, r.ResourceNamesUnsubscribe...),
	}
	for version := range r.InitialResourceVersions {
		s.VersionInfo = version
	}
	return s
}

type scripted request

func fuzzStream(t *testing.T, f form, data []byte) {
	t.Helper()
	c := cache.New(cache.Limits{}, nil)
	opaque, a := newPlane(t, c.Open(source())), newPlane(t, c.Open(source()))
	opaque.set(clusterType, "1", "a", "b")
	a.set(clusterType, "1", ofA("d/1"), ofA("d/1?p=1&q=2"))
	opaque.set(endpointType, "1", "a")
	server := NewServer(Config{Limits: Limits{MaxMessageSize: fuzzLimit}, Router: &testRouter{
		scoped:      func(*corev3.Node, string, keyer.Peer) (*cache.Store, error) { return opaque.store, nil },
		authorities: map[string]*cache.Store{"a": a.store},
	}})
	requests := make(chan *request)
	var sent []*response
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ctx = grpc.NewContextWithServerTransportStream(ctx, &fakeTransport{cancel: cancel})
	stream := &fakeStream{
		ctx:  ctx,
		recv: receiveFrom(ctx, requests),
		sent: func(m any) error {
			sent = append(sent, sound(t, f, m, sent))
			return nil
		},
	}
	go func() {
		defer cancel() // as grpc does
		ended <- server.serve(stream, &variant{f, &services[0]})
	}()
	defer func() {
		server.Stop()
		if n := opaque.store.Clients() + a.store.Clients(); n != 0 {
			t.Errorf("%d clients left in the stores", n)
		}
	}()
	input := script(data)
	for i := 0; i < 64 && len(input) > 0; i++ {
		select {
		case requests <- input.request():
		case err := <-ended:
			properly(t, err)
			return
		}
		synctest.Wait()
		for opaque.pump() || a.pump() {
			synctest.Wait()
		}
		opaque.set(clusterType, []string{"2", "3"}[i%2], "b", "c")
		a.unset(clusterType, ofA("d/1"))
		opaque.settle()
		a.settle()
		synctest.Wait()
		server.Clients(nil, nil)
		for _, p := range []*plane{opaque, a} {
			if err := p.store.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(requests)
	properly(t, <-ended)
}

func receiveFrom(ctx context.Context, requests <-chan *request) func(any) error {
	return func(m any) error {
		select {
		case r, ok := <-requests:
			if !ok {
				return io.EOF
			}
			var in proto.Message = r
			if _, state := m.(*wire.StateRequest); state {
				in = (*scripted)(r).state()
			}
			b, err := proto.Marshal(in)
			if err != nil {
				return err
			}
			return wire.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, m)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sound checks one response: STR-3, RES-4, RES-9.
func sound(t *testing.T, f form, m any, before []*response) *response {
	t.Helper()
	b := m.(*wire.Message).Bytes()
	r := new(response)
	if f == stateForm {
		r = unstated(t, b)
	} else if err := proto.Unmarshal(b, r); err != nil {
		t.Fatalf("a client cannot decode %x: %v", b, err)
	}
	if r.Nonce == "" || r.TypeUrl == "" || slices.ContainsFunc(before, func(o *response) bool { return o.Nonce == r.Nonce }) {
		t.Errorf("nonce %q, type %q", r.Nonce, r.TypeUrl)
	}
	names := slices.Clone(r.RemovedResources)
	for _, x := range r.Resources {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	if n := len(names); len(slices.Compact(names)) != n {
		t.Errorf("RES-4: a name comes twice: %v", r)
	}
	whole := f == stateForm && r.TypeUrl == clusterType // RES-2
	if len(b) > fuzzLimit && n(r) > 1 && !whole {
		t.Errorf("RES-9: a response of %d bytes with %d parts", len(b), n(r))
	}
	return r
}

// unstated reads a state-of-the-world response as an incremental one.
func unstated(t *testing.T, b []byte) *response {
	t.Helper()
	var s stateResponseMsg
	if err := proto.Unmarshal(b, &s); err != nil {
		t.Fatalf("a client cannot decode %x: %v", b, err)
	}
	if s.VersionInfo == "" {
		t.Error("ACK-4: no version_info")
	}
	r := &response{TypeUrl: s.TypeUrl, Nonce: s.Nonce}
	for _, x := range s.Resources {
		name, version, _ := strings.Cut(string(x.Value), "@")
		r.Resources = append(r.Resources, &discovery.Resource{Name: name, Version: version})
	}
	return r
}

// n is the number of things in a response that could go into another one.
func n(r *response) int { return len(r.Resources) + len(r.RemovedResources) }

// properly checks what a stream ended with.
func properly(t *testing.T, err error) {
	t.Helper()
	switch status.Code(err) {
	case codes.OK, codes.InvalidArgument, codes.ResourceExhausted:
	default:
		t.Errorf("the stream ended with %v", err)
	}
}
