package integration

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.yaml.in/yaml/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// TestPlaneServesEveryType asks each type's own service, in each variant that it
// has.
func TestPlaneServesEveryType(t *testing.T) {
	for _, s := range services {
		for _, v := range []variant{delta, sotw, restPoll} {
			if s.deltaOnly && v.sotw {
				continue
			}
			t.Run(s.noun+" "+v.name, func(t *testing.T) {
				p := newPlane(t)
				p.plain, p.longPoll = v.rest, patience
				addr := p.addr
				if v.rest {
					addr = p.startREST(t)
				}
				p.set(s.typeURL, "one", false)
				c := newVariantClient(t, v, addr, "client")
				if err := c.connect(false); err != nil {
					t.Fatal(err)
				}
				c.subscribe(s.typeURL, []string{"one", "two"}, nil)
				c.common().awaitHolding(t, s.typeURL, "one")
				p.set(s.typeURL, "two", false)
				c.common().awaitHolding(t, s.typeURL, "one", "two")
				if got, want := c.common().payloads(s.typeURL), p.payloads(s.typeURL, c.common().wanted(s.typeURL)); !maps.Equal(got, want) {
					t.Errorf("the client holds %q, want %q", got, want)
				}
				p.checkClient(t)
			})
		}
	}
}

// TestPlaneWraps: resources are wrapped for those who announce that they
// understand it, if the plane is told to.
func TestPlaneWraps(t *testing.T) {
	for _, announced := range []bool{true, false} {
		p := newPlane(t)
		p.wrap = true
		p.set(clusterType, "c1", true)
		c := newSotwClient(t, sotwADS, p.addr, "client")
		c.wraps = announced
		if err := c.connect(false); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, []string{"*"}, nil)
		c.awaitHolding(t, clusterType, "c1")
		c.mu.Lock()
		version := c.holds[clusterType]["c1"].version
		c.mu.Unlock()
		if wrapped := version != ""; wrapped != announced {
			t.Errorf("wrapped: %t, announced: %t", wrapped, announced)
		}
		if faults := c.found(); len(faults) > 0 {
			t.Error(faults)
		}
	}
}

// TestPlaneAnswersUnsubscribe: a client of the wildcard that lets go of a name learns whether
// the wildcard has it, though the name's own answer is still on its way then.
func TestPlaneAnswersUnsubscribe_SUB8(t *testing.T) {
	for _, v := range variants {
		if v.rest { // a poll has one answer
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			p := newPlane(t)
			p.set(listenerType, "in", true)
			p.set(listenerType, "out", false)
			p.hold()
			c := newVariantClient(t, v, p.addr, "client")
			if err := c.connect(false); err != nil {
				t.Fatal(err)
			}
			names := []string{"in", "out"}
			c.subscribe(listenerType, append(names, "*"), nil)
			c.subscribe(listenerType, nil, names)
			waitFor(t, "both requests", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				for st := range p.streams {
					return len(st.requests)+len(st.sotwRequests) == 2
				}
				return false
			})
			p.release(nil)
			c.common().awaitHolding(t, listenerType, "in")
			for _, fault := range c.common().found() {
				t.Error(fault)
			}
			p.checkClient(t)
		})
	}
}

// TestPlaneAnswersResumed: a client of the wildcard that let go of a name while it was away
// learns that the wildcard does not have it, though it presents the current version.
func TestPlaneAnswersResumed_SUB8_ACK5(t *testing.T) {
	for _, v := range variants {
		if v.rest { // has no streams
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			p := newPlane(t)
			p.set(listenerType, "in", true)
			p.set(listenerType, "out", false)
			c := newVariantClient(t, v, p.addr, "client")
			c.subscribe(listenerType, []string{"out", "*"}, nil)
			if err := c.connect(false); err != nil {
				t.Fatal(err)
			}
			c.common().awaitHolding(t, listenerType, "in", "out")
			c.disconnect()
			c.subscribe(listenerType, nil, []string{"out"})
			if err := c.connect(true); err != nil {
				t.Fatal(err)
			}
			c.common().awaitHolding(t, listenerType, "in")
		})
	}
}

// misbehaviour is a SotW client's requests of clusters, one after the other, and
// how the plane calls what is wrong with the last one. Two responses are read
// after the first request.
type misbehaviour struct {
	name     string
	requests []*discovery.DiscoveryRequest
	report   string
}

var node = &corev3.Node{Id: "client"}

// The plane's responses are nonce 1 at version 1 and nonce 2 at version 2.
var misbehaviours = []misbehaviour{
	{"no node", []*discovery.DiscoveryRequest{{}}, "STR-2"},
	{"an answer given twice", []*discovery.DiscoveryRequest{
		{Node: node}, {VersionInfo: "1", ResponseNonce: "1"}, {VersionInfo: "1", ResponseNonce: "1"},
	}, "STR-8"},
	{"an answer missing", []*discovery.DiscoveryRequest{
		{Node: node}, {VersionInfo: "2", ResponseNonce: "2"},
	}, "STR-8"},
	{"the nonce of another stream", []*discovery.DiscoveryRequest{
		{Node: node}, {VersionInfo: "1", ResponseNonce: "one"},
	}, "STR-3"},
	{"no nonce", []*discovery.DiscoveryRequest{
		{Node: node}, {VersionInfo: "1", ResponseNonce: "1"}, {VersionInfo: "1", ResourceNames: []string{"c1"}},
	}, "STR-9"},
	{"an ACK with another version", []*discovery.DiscoveryRequest{
		{Node: node}, {VersionInfo: "7", ResponseNonce: "1"},
	}, "ACK-2"},
	{"a NACK with the version that it rejects", []*discovery.DiscoveryRequest{
		{Node: node}, {VersionInfo: "1", ResponseNonce: "1", ErrorDetail: &statuspb.Status{Code: 3}},
	}, "ACK-2"},
}

// TestPlaneReportsMisbehaviour shows that the plane notices what it is there to
// notice.
func TestPlaneReportsMisbehaviour(t *testing.T) {
	for _, m := range misbehaviours {
		t.Run(m.name, func(t *testing.T) {
			p := newPlane(t)
			p.set(clusterType, "c1", true)
			conn := dial(t, p.addr)
			defer conn.Close()
			g, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, sotwADS.method(clusterType))
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range m.requests {
				q := proto.CloneOf(r)
				q.TypeUrl = clusterType
				if err := g.SendMsg(q); err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					continue
				}
				receiveOne(t, g)
				p.set(clusterType, "c1", true)
				receiveOne(t, g)
			}
			waitFor(t, m.report, func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return slices.ContainsFunc(p.violated, func(v string) bool { return strings.HasPrefix(v, m.report) })
			})
		})
	}
}

func receiveOne(t *testing.T, g grpc.ClientStream) {
	t.Helper()
	if err := g.RecvMsg(new(discovery.DiscoveryResponse)); err != nil {
		t.Fatal(err)
	}
}

// TestPlaneWritesFiles reads back what the plane writes, in every encoding and
// however the files are replaced.
func TestPlaneWritesFiles(t *testing.T) {
	for _, ext := range slices.Sorted(maps.Keys(encodings)) {
		for _, replace := range []replacement{byRename, byRewrite, byConfigMap} {
			t.Run(ext+" "+string(replace), func(t *testing.T) {
				p := newPlane(t)
				p.plain = true
				p.set(clusterType, "c1", true)
				path := filepath.Join(p.startFiles(t, ext, replace), "Clusters"+ext)
				hold := func(want ...string) {
					t.Helper()
					if got, err := namesInFile(path, ext); err != nil || !slices.Equal(got, want) {
						t.Fatalf("the file holds %v (%v), want %v", got, err, want)
					}
				}
				hold("c1")
				p.set(clusterType, "c2", true)
				hold("c1", "c2")
				p.unset(clusterType, "c1")
				hold("c2")
				p.stop()
				if names, err := namesInFile(path, ext); err == nil {
					t.Errorf("the damaged file can be read, it holds %v", names)
				}
				p.restart(t)
				hold("c2")
				var files int
				err := filepath.WalkDir(filepath.Dir(path), func(_ string, d fs.DirEntry, err error) error {
					if err == nil && d.Type().IsRegular() {
						files++
					}
					return err
				})
				if err != nil || files != 1 {
					t.Errorf("%d files are there (%v), want 1", files, err)
				}
			})
		}
	}
}

// namesInFile decodes a file of a DiscoveryResponse.
func namesInFile(path, ext string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(discovery.DiscoveryResponse)
	switch ext {
	case ".json":
		err = protojson.Unmarshal(b, r)
	case ".yaml":
		err = unmarshalYAML(b, r)
	case ".pb":
		err = proto.Unmarshal(b, r)
	case ".pb_text":
		err = prototext.Unmarshal(b, r)
	}
	var names []string
	for _, x := range r.GetResources() {
		names = append(names, nameOf(x.GetValue()))
	}
	return names, err
}

func unmarshalYAML(b []byte, r *discovery.DiscoveryResponse) error {
	var tree any
	if err := yaml.Unmarshal(b, &tree); err != nil {
		return err
	}
	j, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(j, r)
}
