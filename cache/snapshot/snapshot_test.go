package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xdstypev3 "github.com/cncf/xds/go/xds/type/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	secretType   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

func packed(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	p, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func resource(t testing.TB, p *discoveryv3.Resource) *wire.Resource {
	t.Helper()
	r, err := wire.NewResource(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// imageOfState has n resources of one version.
func imageOfState(t testing.TB, state, n int) *cache.Image {
	t.Helper()
	table := cache.TableImage{TypeURL: endpointType, Kind: cache.ByName}
	for k := range n {
		name := fmt.Sprint("e", k)
		table.Names = append(table.Names, name)
		table.Resources = append(table.Resources, cache.ResourceImage{Received: time.Unix(1, 0), Resource: made(t, name, fmt.Sprint(state))})
	}
	return &cache.Image{Tables: []cache.TableImage{table}}
}

// versions are the resources that made has made, by name and version.
var versions = map[string]*wire.Resource{}

// made makes a resource once: tests write it thousands of times.
func made(t testing.TB, name, version string) *wire.Resource {
	t.Helper()
	r := versions[name+"@"+version]
	if r == nil {
		r = resource(t, &discoveryv3.Resource{
			Name: name, Version: version, Resource: packed(t, &endpointv3.ClusterLoadAssignment{ClusterName: strings.Repeat(name, 30)}),
		})
		versions[name+"@"+version] = r
	}
	return r
}

func TestSUR1RoundTrip(t *testing.T) {
	h := &Header{ID: ID("x", "y"), Upstream: "u", Scope: `cluster="shop"`, Written: time.Unix(100, 5), AsOf: time.Unix(90, 0)}
	i := imageOfState(t, 7, 3)
	i.Tables[0].SystemVersion, i.Tables[0].VersionInfo, i.Tables[0].Collections = "system", "info", []string{"xdstp://a/T/g/*"}
	i.Tables[0].Resources[1].Resource = resource(t, &discoveryv3.Resource{
		Name: "e1", Version: "7", Resource: packed(t, &endpointv3.ClusterLoadAssignment{}), Ttl: durationpb.New(time.Hour), Aliases: []string{"other"},
	})
	i.Tables[0].Resources[1].Deadline = time.Unix(3000, 0)
	var b bytes.Buffer
	counts, err := Write(&b, h, i)
	if err != nil || counts != (Counts{Tables: 1, Resources: 3, Bytes: int64(b.Len())}) {
		t.Fatalf("wrote %+v, %v", counts, err)
	}
	gotHeader, got, err := Read(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, gotHeader); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	same := cmp.Comparer(func(a, b *wire.Resource) bool {
		return a.SameContent(b) && a.TTL() == b.TTL() && a.Version == b.Version && a.Name == b.Name
	})
	if diff := cmp.Diff(i.Tables, got.Tables, same); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if !got.Tables[0].Resources[0].Resource.Restored() {
		t.Error("what was read is not marked")
	}
	for n := range b.Len() {
		if _, _, err := Read(bytes.NewReader(b.Bytes()[:n])); err == nil {
			t.Fatalf("the first %d bytes of %d are a snapshot", n, b.Len())
		}
	}
	if _, _, err := Read(bytes.NewReader(append(b.Bytes(), 0))); err == nil {
		t.Error("a snapshot with something behind it is one")
	}
}

// What is secret is not written, wherever it lies (OPS-6).
func TestOPS6SecretsAreLeftOut(t *testing.T) {
	const hush = "hush-hush"
	inline := &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: hush}}
	secret := &tlsv3.Secret{Name: "s", Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{Secret: inline}}}
	context := &tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificates: []*tlsv3.TlsCertificate{{PrivateKey: inline}},
	}}
	with := func(name string, socket *anypb.Any) *wire.Resource {
		l := &listenerv3.Listener{Name: name}
		if socket != nil {
			l.FilterChains = []*listenerv3.FilterChain{{TransportSocket: &corev3.TransportSocket{
				Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: socket},
			}}}
		}
		return resource(t, &discoveryv3.Resource{Name: name, Version: "1", Resource: packed(t, l)})
	}
	listener := func(name string, socket proto.Message) *wire.Resource {
		if socket == nil {
			return with(name, nil)
		}
		return with(name, packed(t, socket))
	}
	cut := packed(t, context) // what cannot be decoded may be a secret as well
	cut.Value = append(cut.Value, 0xff)
	untyped, err := structpb.NewStruct(map[string]any{"common_tls_context": map[string]any{
		"tls_certificates": []any{map[string]any{"private_key": map[string]any{"inline_string": hush}, "ocsp_staple_policy": true}},
		"alpn_protocols":   "no list",
	}})
	if err != nil {
		t.Fatal(err)
	}
	typed := &xdstypev3.TypedStruct{TypeUrl: packed(t, context).GetTypeUrl(), Value: untyped}
	i := &cache.Image{Tables: []cache.TableImage{
		{TypeURL: secretType, Kind: cache.ByName, Names: []string{hush}, Resources: []cache.ResourceImage{
			{Resource: resource(t, &discoveryv3.Resource{Name: hush, Version: "1", Resource: packed(t, secret)})},
		}},
		{TypeURL: listenerType, Collections: []string{"*"}, Resources: []cache.ResourceImage{
			{Resource: listener("with-key", context)},
			{Resource: with("with-broken-key", cut)},
			{Resource: listener("with-key-in-struct", typed)},
			{Resource: listener("without-key", &tlsv3.DownstreamTlsContext{})},
			{Resource: listener("plain", nil)},
			{Resource: resource(t, &discoveryv3.Resource{
				Name: "once", Version: "1", Resource: packed(t, &listenerv3.Listener{Name: hush}),
				CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true},
			})},
		}},
	}}
	var b bytes.Buffer
	counts, err := Write(&b, &Header{ID: ID()}, i)
	if err != nil || counts.Left != 4 || counts.Resources != 2 || counts.Tables != 1 {
		t.Fatalf("wrote %+v, %v", counts, err)
	}
	if bytes.Contains(b.Bytes(), []byte(hush)) {
		t.Error("the secret is in the file")
	}

	// Another relay may have secrets, but nothing that is not to be cached (TTL-5). Without them it has what a disk has.
	i.Past = cache.PastImage{Number: 7, Since: time.Unix(1, 0)}
	for secrets, want := range map[bool]int{false: 2, true: 6} {
		b.Reset()
		if _, err := Lend(&b, &Header{ID: ID()}, i, secrets); err != nil {
			t.Fatal(err)
		}
		_, lent, err := Read(&b)
		if err != nil || lent.Past.Number != 0 {
			t.Fatalf("what a peer is lent has generation %d, %v", lent.Past.Number, err)
		}
		if n := resources(lent); n != want {
			t.Errorf("a peer that may have secrets (%t) is lent %d resources, want %d", secrets, n, want)
		}
		if LeaveSecrets(lent, nil); resources(lent) != 2 || len(lent.Tables) != 1 || !slices.Contains(lent.Tables[0].Lacking, "*") {
			t.Errorf("without secrets there are %d resources in %d tables", resources(lent), len(lent.Tables))
		}
	}
}

func resources(i *cache.Image) (n int) {
	for _, t := range i.Tables {
		n += len(t.Resources)
	}
	return n
}

// A file of another format is no corrupt one: a relay of another version may know it.
func TestSUR1Version(t *testing.T) {
	var b bytes.Buffer
	if _, err := Write(&b, &Header{ID: ID()}, imageOfState(t, 1, 1)); err != nil {
		t.Fatal(err)
	}
	b.Bytes()[len(magic)]++
	_, _, err := Read(&b)
	if other, ok := errors.AsType[*VersionError](err); !ok || other.Version != version+1 {
		t.Errorf("another format gives %v", err)
	}
}

// IDs tell parts apart, and say nothing of them.
func TestSUR1ID(t *testing.T) {
	if ID("ab", "c") == ID("a", "bc") || ID("a") == ID("a", "") || strings.Contains(ID("secret"), "secret") {
		t.Error("an ID is not what it should be")
	}
}

func TestSUR1Tidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(rand.New(rand.NewPCG(1, 1)))
		f := m.open(t)
		for _, id := range []string{"open", "a", "b"} {
			if _, err := f.Save(&Header{ID: id}, imageOfState(t, 1, 10)); err != nil {
				t.Fatal(err)
			}
		}
		m.names["c"+putAsideName] = &inode{data: []byte("bad")}
		open := func(id string) bool { return id == "open" }
		if n, err := f.Tidy(time.Now(), 1<<30, open); n != 0 || err != nil {
			t.Errorf("removed %d, %v", n, err)
		}
		size := int64(len(m.names["a"+suffix].data))
		all := int64(0)
		for _, file := range m.names {
			all += int64(len(file.data))
		}
		if n, err := f.Tidy(time.Now().Add(MaxAge-1), all, open); n != 0 || err != nil {
			t.Errorf("removed %d just within the limits, %v", n, err)
		}
		if n, err := f.Tidy(time.Now(), 2*size+10, open); n != 1 || err != nil {
			t.Errorf("removed %d beyond the limit, %v", n, err)
		}
		if n, err := f.Tidy(time.Now().Add(MaxAge), 1<<30, open); n != 2 || err != nil {
			t.Errorf("removed %d that were too old, %v", n, err)
		}
		if _, _, err := f.Load("open"); err != nil {
			t.Error(err)
		}
	})
}

// On a real disk.
func TestSUR1Folder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	f, err := Open(files.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	id := ID("a")
	if _, _, err := f.Load(id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing gives %v", err)
	}
	if _, err := f.Save(&Header{ID: id, Upstream: "u"}, imageOfState(t, 1, 5)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"+unfinished), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	var found []*Contents
	if err := Inspect(files.OS{}, dir, func(c *Contents) { found = append(found, c) }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Err != nil || found[0].Header.Upstream != "u" || len(found[0].Image.Tables) != 1 {
		t.Errorf("found %+v", found)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Save(&Header{ID: id}, imageOfState(t, 2, 5)); err == nil {
		t.Error("a closed folder takes a file")
	}
	if f, err = Open(files.OS{}, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x"+unfinished)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the unfinished file: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkSnapshot writes and reads 100,000 resources of 1 KiB.
func BenchmarkSnapshot(b *testing.B) {
	const n = 100_000
	table := cache.TableImage{TypeURL: endpointType, Collections: []string{"*"}}
	for k := range n {
		name := fmt.Sprint("e", k)
		table.Resources = append(table.Resources, cache.ResourceImage{Received: time.Unix(1, 0), Resource: resource(b, &discoveryv3.Resource{
			Name: name, Version: "1", Resource: packed(b, &endpointv3.ClusterLoadAssignment{ClusterName: strings.Repeat("x", 1000)}),
		})})
	}
	i := &cache.Image{Tables: []cache.TableImage{table}}
	var file bytes.Buffer
	if _, err := Write(&file, &Header{ID: ID()}, i); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			var out bytes.Buffer
			out.Grow(file.Len())
			if _, err := Write(&out, &Header{ID: ID()}, i); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("restore", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(file.Len()))
		for b.Loop() {
			_, image, err := Read(bytes.NewReader(file.Bytes()))
			if err != nil {
				b.Fatal(err)
			}
			if got := cache.New(cache.Limits{}, nil).Open(cache.Source{}).Snapshots().Restore(image, time.Now()); got != n {
				b.Fatalf("restored %d", got)
			}
		}
	})
}
