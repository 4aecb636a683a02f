package content

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

func encoded(t *testing.T, s Set, item, revision int) (name, version, payload []byte) {
	t.Helper()
	r, err := s.Resource(item, revision)
	if err != nil {
		t.Fatal(err)
	}
	payload, err = proto.MarshalOptions{Deterministic: true}.Marshal(r.GetResource())
	if err != nil {
		t.Fatal(err)
	}
	return []byte(r.GetName()), []byte(r.GetVersion()), payload
}

func TestPayloadsAreOfTheirSize(t *testing.T) {
	for _, typeURL := range []string{ClusterType, EndpointType} {
		for _, size := range []int{256, 1 << 10, 100 << 10} {
			s := Set{TypeURL: typeURL, Count: 1, Size: size}
			r, err := s.Resource(0, 12)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(r.GetResource().GetValue()); n < size || n > size+64 {
				t.Errorf("the payload of a %s has %d bytes, expected %d", typeURL, n, size)
			}
		}
	}
}

func TestCatalogueFindsWhatWasAdded(t *testing.T) {
	clusters, endpoints := Set{TypeURL: ClusterType, Count: 3, Size: 100}, Set{TypeURL: EndpointType, Count: 2, Size: 100}
	c, err := NewCatalogue(clusters, endpoints)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Add(1, 0, 1); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		set                    Set
		item, revision, number int
	}{{clusters, 2, 0, 2}, {endpoints, 0, 0, 3}, {endpoints, 0, 1, 3}, {endpoints, 1, 0, 4}} {
		name, version, payload := encoded(t, of.set, of.item, of.revision)
		found, err := c.Find(payload, name, version)
		if err != nil || found.Number != of.number || found.Revision != of.revision || found.TypeURL != of.set.TypeURL {
			t.Errorf("revision %d of %s is %+v, %v, expected number %d", of.revision, name, found, err, of.number)
		}
		if _, err := c.Find(payload, nil, nil); err != nil {
			t.Errorf("%s without name and version: %v", name, err)
		}
		if got := c.NameOf(of.number); got != string(name) {
			t.Errorf("number %d is %q, expected %q", of.number, got, name)
		}
		if n, ok := c.Number(name); !ok || n != of.number {
			t.Errorf("%q has number %d, %v, expected %d", name, n, ok, of.number)
		}
	}
	if c.Len() != 5 || c.First(1) != 3 {
		t.Errorf("%d resources, the second set from %d on, expected 5 and 3", c.Len(), c.First(1))
	}
	if from, to := c.Range(EndpointType); from != 3 || to != 5 {
		t.Errorf("endpoints are %d to %d, expected 3 to 5", from, to)
	}
	if from, to := c.Range("type"); from != 0 || to != 0 {
		t.Errorf("an unknown type is %d to %d, expected nothing", from, to)
	}
}

func TestCatalogueRefuses(t *testing.T) {
	s := Set{TypeURL: ClusterType, Count: 2, Size: 100}
	c, err := NewCatalogue(s)
	if err != nil {
		t.Fatal(err)
	}
	name, version, payload := encoded(t, s, 0, 0)
	_, _, later := encoded(t, s, 0, 1)
	for what, of := range map[string]struct {
		payload, name, version []byte
		want                   string
	}{
		"a revision that was not added": {later, name, version, "that no server was given"},
		"another name":                  {payload, []byte("cluster-000001"), version, `comes with the payload of "cluster-000000"`},
		"no name":                       {payload, []byte{}, version, `"" comes with the payload of "cluster-000000"`},
		"another version":               {payload, name, []byte("1"), `comes as version "1"`},
	} {
		if _, err := c.Find(of.payload, of.name, of.version); err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: the error is %v, expected %q", what, err, of.want)
		}
	}
	if err := c.Add(0, 0, 0); err == nil {
		t.Error("one content was added twice")
	}
}
