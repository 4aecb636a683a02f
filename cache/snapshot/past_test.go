package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// imageOfPast has two generations before the present one.
func imageOfPast(t *testing.T) *cache.Image {
	t.Helper()
	i := imageOfState(t, 3, 1)
	timed := resource(t, &discoveryv3.Resource{
		Name: "e0", Version: "2", Resource: packed(t, &discoveryv3.Resource{Name: "x"}), Ttl: durationpb.New(time.Hour),
	})
	i.Past = cache.PastImage{Number: 8, Since: time.Unix(30, 0), Bursts: []cache.BurstImage{
		{Number: 6, Began: time.Unix(10, 0), Ended: time.Unix(11, 0), Before: []cache.BeforeImage{
			{TypeURL: listenerType, Kind: cache.WholeType, Key: "l", Resource: made(t, "l", "1")}, {TypeURL: endpointType, Kind: cache.ByName, Key: "new"},
		}},
		{Number: 7, Since: time.Unix(11, 0), Began: time.Unix(30, 0), Ended: time.Unix(31, 0), Before: []cache.BeforeImage{
			{TypeURL: endpointType, Kind: cache.ByName, Key: "e0", Resource: timed},
		}},
	}}
	return i
}

func fileOf(t *testing.T, i *cache.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := Write(&b, &Header{ID: ID("x")}, i); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPast_GATE4_SUR1(t *testing.T) {
	i := imageOfPast(t)
	_, got, err := Read(bytes.NewReader(fileOf(t, i)))
	if err != nil {
		t.Fatal(err)
	}
	same := cmp.Comparer(func(a, b *wire.Resource) bool {
		return a == b || a != nil && b != nil && a.SameContent(b) && a.TTL() == b.TTL() && a.Version == b.Version && a.Name == b.Name
	})
	if diff := cmp.Diff(i.Past, got.Past, same); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A generation with a secret is not written, and none before it: it would be another state.
func TestPast_GATE4_OPS6_secrets(t *testing.T) {
	secret := resource(t, &discoveryv3.Resource{Name: "s", Resource: packed(t, &tlsv3.Secret{Name: "s"})})
	for at, want := range []int{1, 0} {
		i := imageOfPast(t)
		b := &i.Past.Bursts[at]
		b.Before = append(b.Before, cache.BeforeImage{TypeURL: listenerType, Key: "s", Resource: secret})
		_, got, err := Read(bytes.NewReader(fileOf(t, i)))
		if err != nil || len(got.Past.Bursts) != want || got.Past.Number != 8 {
			t.Errorf("generation %d has a secret: %+v, %v", at, got.Past, err)
		}
	}
}

// A file of the version before is read. One of a version to come is not.
func TestPast_SUR1_versions(t *testing.T) {
	for v, ok := range map[uint32]bool{0: false, oldest: true, version: true, version + 1: false} {
		data := bytes.Clone(fileOf(t, &cache.Image{}))
		binary.LittleEndian.PutUint32(data[len(magic):], v)
		_, err := ReadHeader(bytes.NewReader(data))
		if _, unknown := errors.AsType[*VersionError](err); unknown == ok {
			t.Errorf("version %d: %v", v, err)
		}
	}
}

// The file says which collections may have more members: because those are not for a disk, or because the store
// does not know them. One of an older relay does not.
func TestLacking_SUR1_OPS6(t *testing.T) {
	secret := resource(t, &discoveryv3.Resource{Name: "s", Resource: packed(t, &tlsv3.Secret{Name: "s"})})
	table := cache.TableImage{TypeURL: listenerType, Kind: cache.WholeType, Collections: []string{cache.Wildcard}, Resources: []cache.ResourceImage{{Resource: secret}}}
	for _, want := range []int{1, 0} {
		_, got, err := Read(bytes.NewReader(fileOf(t, &cache.Image{Tables: []cache.TableImage{table}})))
		if err != nil || len(got.Tables) != 1 || len(got.Tables[0].Lacking) != want || len(got.Tables[0].Resources) != 0 {
			t.Errorf("want %d: %+v, %v", want, got, err)
		}
		table.Resources = nil
	}
	// Two of one collection are one collection, and a name is none.
	for name, want := range map[string][]string{"xdstp://a/T/g/1": {"xdstp://a/T/g/*"}, "s": nil} {
		other := cache.TableImage{TypeURL: listenerType, Kind: cache.ByName, Names: []string{name}}
		for range 2 {
			r := resource(t, &discoveryv3.Resource{Name: name, Resource: packed(t, &tlsv3.Secret{Name: "s"})})
			other.Resources = append(other.Resources, cache.ResourceImage{Resource: r})
		}
		_, got, err := Read(bytes.NewReader(fileOf(t, &cache.Image{Tables: []cache.TableImage{other}})))
		if err != nil || !slices.Equal(got.Tables[0].Lacking, want) {
			t.Errorf("of %q there may be more in %q, %v", name, got.Tables[0].Lacking, err)
		}
	}
	table.Lacking = []string{cache.Wildcard}
	_, got, err := Read(bytes.NewReader(fileOf(t, &cache.Image{Tables: []cache.TableImage{table}})))
	if err != nil || len(got.Tables) != 1 || !slices.Equal(got.Tables[0].Lacking, table.Lacking) {
		t.Errorf("%+v, %v", got, err)
	}
}
