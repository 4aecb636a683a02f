package directory

import (
	"fmt"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/protobuf/encoding/protowire"
)

// MaxEntries is how many entries of a directory are read. TP1 recommends globs
// long before that.
const MaxEntries = 100_000

// fieldResources is the one field that every TCollection has: repeated
// xds.core.v3.CollectionEntry.
const fieldResources protowire.Number = 1

// Directory is what a list collection says. It refers to the bytes that it was
// read from.
type Directory struct {
	// MemberType is the type URL of the members, that of T.
	MemberType string
	// Entries are those that can be read, in the server's order.
	Entries []Entry
	// Faults say what is wrong, in the order of the entries: what could not be
	// read, and what could but breaks a rule. Each is a [*FaultError], but for the last
	// one where there are too many to list.
	Faults []error
	// Counts says how many faults there are of each kind, listed or not.
	Counts map[Kind]int
}

// Read takes a directory apart. packed is the encoded google.protobuf.Any of a
// resource of a type TCollection, as wire.Resource.Any gives it; entries refer
// to it. The error says why nothing can be read: another type, bytes that are no
// message, too many entries.
func Read(packed []byte) (*Directory, error) {
	typeURL, value, err := openAny(packed)
	if err != nil {
		return nil, err
	}
	member, isList := keyer.MemberType(typeURL)
	if !isList {
		return nil, fmt.Errorf("a %.256q is no list collection", typeURL)
	}
	d := &Directory{MemberType: member}
	var faults faults
	number := 0
	seen := make(map[string]int)
	err = walk(value, func(f field) error {
		if f.num != fieldResources || f.typ != protowire.BytesType {
			return nil // the collection may have fields of its own
		}
		if number == MaxEntries {
			return fmt.Errorf("more than %d entries", MaxEntries)
		}
		e, err := readEntry(f.body)
		e.Number = number
		if err != nil {
			faults.add(number, Unreadable, err)
		} else {
			d.Entries = append(d.Entries, e)
			d.judge(&e, seen, &faults)
		}
		number++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("a %.256q: %w", typeURL, err)
	}
	d.Faults, d.Counts = faults.list(), faults.counts
	return d, nil
}

// judge finds what is wrong with an entry that can be read. seen has the
// numbers of the inline entries so far by their names.
func (d *Directory) judge(e *Entry, seen map[string]int, faults *faults) {
	collection := d.MemberType + collectionSuffix
	switch {
	case sameType(e.TypeURL, d.MemberType):
	case e.Inline() && sameType(e.TypeURL, wire.RedirectTypeURL): // leads to one, in the end (LOC-1)
	case !e.Inline() && sameType(e.TypeURL, collection): // members of another directory, or an entry that is one
	default:
		faults.add(e.Number, WrongType, fmt.Errorf("a %.256q in a collection of %.256q", e.TypeURL, d.MemberType))
	}
	if e.Name == "" {
		return
	}
	if first, twice := seen[e.Name]; twice {
		faults.add(e.Number, Duplicate, fmt.Errorf("the name %.256q is that of resources[%d], too", e.Name, first))
		return
	}
	seen[e.Name] = e.Number
}
