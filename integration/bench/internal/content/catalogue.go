package content

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"

	"google.golang.org/protobuf/proto"
)

// Catalogue knows every content that clients may be sent, by its bytes. Resources
// of all its sets are numbered in one sequence, in the order of the sets: the
// numbers of a set begin at [Catalogue.First].
//
// It is filled before clients use it, and then only read, by any goroutine.
type Catalogue struct {
	sets     []Set
	first    []int
	total    int
	seed     maphash.Seed
	contents []Content
	index    map[uint64]int32 // into contents, by hash of the encoded Any; small, as it is looked into all the time
	names    map[string]int
}

// Content is one revision of a resource.
type Content struct {
	TypeURL  string
	Name     string
	Version  string
	Number   int // in the catalogue
	Revision int
}

var errTwice = errors.New("two contents have one hash")

// NewCatalogue makes a catalogue of the first revision, 0, of all resources.
func NewCatalogue(sets ...Set) (*Catalogue, error) {
	c := &Catalogue{
		sets: sets, seed: maphash.MakeSeed(),
		index: make(map[uint64]int32), names: make(map[string]int),
	}
	for _, s := range sets {
		c.first = append(c.first, c.total)
		for item := range s.Count {
			c.names[s.Name(item)] = c.total + item
		}
		c.total += s.Count
	}
	for at, s := range sets {
		for item := range s.Count {
			if err := c.Add(at, item, 0); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// Add adds a revision of a resource of the set with this index.
func (c *Catalogue) Add(set, item, revision int) error {
	s := c.sets[set]
	r, err := s.Resource(item, revision)
	if err != nil {
		return err
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.GetResource())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", r.GetName(), err)
	}
	key := maphash.Bytes(c.seed, encoded)
	if _, taken := c.index[key]; taken {
		return errTwice
	}
	c.index[key] = int32(len(c.contents))
	c.contents = append(c.contents, Content{
		TypeURL: s.TypeURL, Name: r.GetName(), Version: r.GetVersion(),
		Number: c.first[set] + item, Revision: revision,
	})
	return nil
}

// Len is the number of resources.
func (c *Catalogue) Len() int { return c.total }

// First is the number of the first resource of the set with this index.
func (c *Catalogue) First(set int) int { return c.first[set] }

// Range gives the numbers of all resources of a type: from, up to and without to.
// Both are 0 for a type that there is none of.
func (c *Catalogue) Range(typeURL string) (from, to int) {
	for i, s := range c.sets {
		if s.TypeURL == typeURL {
			return c.first[i], c.first[i] + s.Count
		}
	}
	return 0, 0
}

// Number gives the number of the resource with a name.
func (c *Catalogue) Number(name []byte) (int, bool) {
	n, ok := c.names[string(name)]
	return n, ok
}

// NameOf gives the name of the resource with a number.
func (c *Catalogue) NameOf(number int) string {
	for i, s := range c.sets {
		if number < c.first[i]+s.Count {
			return s.Name(number - c.first[i])
		}
	}
	return ""
}

// Find gives what an encoded google.protobuf.Any is the content of. Where the
// response names the resource and its version, they have to be right as well; nil
// stands for a response that names neither.
func (c *Catalogue) Find(payload, name, version []byte) (Content, error) {
	at, ok := c.index[maphash.Bytes(c.seed, payload)]
	if !ok {
		return Content{}, fmt.Errorf("a payload of %d bytes for %q that no server was given", len(payload), name)
	}
	found := &c.contents[at]
	switch {
	case name != nil && !bytes.Equal(name, []byte(found.Name)):
		return Content{}, fmt.Errorf("%q comes with the payload of %q", name, found.Name)
	case version != nil && !bytes.Equal(version, []byte(found.Version)):
		return Content{}, fmt.Errorf("%q comes as version %q, its content is version %q", name, version, found.Version)
	}
	return *found, nil
}
