package directory

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Field numbers of xds.core.v3.CollectionEntry and of InlineEntry in it.
const (
	fieldLocator     protowire.Number = 1
	fieldInlineEntry protowire.Number = 2

	fieldName     protowire.Number = 1
	fieldVersion  protowire.Number = 2
	fieldResource protowire.Number = 3
)

// maxDepth is how deep a locator may be nested. Each alternative takes two
// levels, and the chains that package keyer accepts are far shorter.
const maxDepth = 64

const (
	// typePrefix begins the type URL of a message, which names leave out.
	typePrefix = "type.googleapis.com/"
	// collectionSuffix makes the type of a list collection from that of its members.
	collectionSuffix = "Collection"
)

// Entry is one entry of a directory: a reference, or a resource inline.
type Entry struct {
	// Number is the entry's place in the directory, counted from 0.
	Number int
	// Locator is the name of what a reference refers to, in the resolved form of
	// package keyer; "" for an inline entry.
	Locator string
	// TypeURL is the type of the member: of the payload that is inline, or that
	// the locator's name says.
	TypeURL string
	// Name and Version are those of an inline entry, "" where it has none: it is
	// anonymous then, and nobody can ask for it.
	Name, Version string
	// Any is the encoded google.protobuf.Any of an inline entry, as the server
	// encoded it. It is part of what the directory was read from, must not be
	// changed, and keeps all of that in memory.
	Any []byte
}

// Inline tells whether the entry holds its resource.
func (e *Entry) Inline() bool { return e.Locator == "" }

// readEntry reads an encoded CollectionEntry.
func readEntry(b []byte) (Entry, error) {
	var which protowire.Number
	var body message
	err := walk(b, func(f field) error {
		if f.typ != protowire.BytesType || f.num != fieldLocator && f.num != fieldInlineEntry {
			return nil
		}
		if f.num != which { // of a oneof the last field counts
			which, body = f.num, message{}
		}
		body.add(f.body)
		return nil
	})
	switch {
	case err != nil:
		return Entry{}, err
	case which == fieldLocator:
		return readReference(body.bytes)
	case which == fieldInlineEntry:
		return readInline(body.bytes)
	default:
		return Entry{}, errors.New("neither a locator nor an inline entry")
	}
}

// readReference reads an encoded ResourceLocator.
func readReference(b []byte) (Entry, error) {
	name, err := locatorName(b)
	if err != nil {
		return Entry{}, err
	}
	n, err := keyer.Parse(name)
	if err != nil {
		return Entry{}, err // cannot be: it is the name of a locator
	}
	return Entry{Locator: name, TypeURL: typePrefix + n.ResourceType()}, nil
}

// maxName bounds the names that are led to, as clients' are: they go on to other
// upstreams, to which one server must not send what passes the limit of a request.
const maxName = 64 << 10

// locatorName gives the name that an encoded ResourceLocator spells.
func locatorName(b []byte) (string, error) {
	var l xdscorev3.ResourceLocator
	o := proto.UnmarshalOptions{RecursionLimit: maxDepth, DiscardUnknown: true}
	if err := o.Unmarshal(b, &l); err != nil {
		return "", fmt.Errorf("resource locator: %w", err)
	}
	name, err := keyer.Locator(&l)
	if err == nil && len(name) > maxName {
		return "", fmt.Errorf("resource locator: a name of %d bytes, at most %d are looked for", len(name), maxName)
	}
	return name, err
}

// readInline reads an encoded InlineEntry.
func readInline(b []byte) (Entry, error) {
	e := Entry{}
	var name, version []byte
	var resource message
	err := walk(b, func(f field) error {
		if f.typ != protowire.BytesType {
			return nil
		}
		switch f.num {
		case fieldName:
			name = f.body
		case fieldVersion:
			version = f.body
		case fieldResource:
			resource.add(f.body)
		}
		return nil
	})
	switch {
	case err != nil:
		return Entry{}, err
	case !utf8.Valid(name):
		return Entry{}, errors.New("its name is not UTF-8")
	case !utf8.Valid(version):
		return Entry{}, errors.New("its version is not UTF-8")
	case resource.parts == 0:
		return Entry{}, errors.New("an inline entry without resource")
	}
	e.Name, e.Version, e.Any = string(name), string(version), resource.bytes
	if e.TypeURL, _, err = openAny(e.Any); err != nil {
		return Entry{}, fmt.Errorf("its resource: %w", err)
	}
	return e, nil
}

// sameType tells whether two type URLs are those of one type. Their hosts may differ.
func sameType(a, b string) bool {
	return a[strings.LastIndexByte(a, '/')+1:] == b[strings.LastIndexByte(b, '/')+1:]
}
