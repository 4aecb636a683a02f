package keyer

import (
	"fmt"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// typePrefix begins the URL of every type that is a protobuf message.
const typePrefix = "type.googleapis.com/"

// V2TypeURL gives the type URL of v2 for one of v3 (VAR-9); "" if there is none.
func V2TypeURL(typeURL string) string {
	if t := xds.Find(typeURL); t != nil && t.URL == typeURL {
		return t.V2URL()
	}
	return ""
}

// KnownType gives the v3 type URL for any form of a type that has a short name: its name in v2, the type of its list
// collections, and a URL that has something else before the message's name. A control plane may take all of them for
// the same. It is false for other types.
func KnownType(typeURL string) (string, bool) {
	message := typeURL[strings.LastIndexByte(typeURL, '/')+1:]
	if member, isList := MemberType(message); isList {
		message = member
	}
	if t := xds.Find(typePrefix + message); t != nil && t.Short != "" {
		return t.URL, true
	}
	return "", false
}

// ShortNames lists the short names of resource types: "lds", "cds" and so on.
func ShortNames() []string {
	var names []string
	for i := range xds.Types() {
		if short := xds.Types()[i].Short; short != "" {
			names = append(names, short)
		}
	}
	return names
}

// TypeURL gives the type URL that a short name stands for, in any case.
func TypeURL(short string) (string, bool) {
	for i := range xds.Types() {
		if t := &xds.Types()[i]; t.Short != "" && strings.EqualFold(t.Short, short) {
			return t.URL, true
		}
	}
	return "", false
}

// ParseType gives the type URL of what somebody typed for a type: a short name, a type URL, or the name of a message.
func ParseType(s string) (string, error) {
	if url, ok := TypeURL(s); ok {
		return url, nil
	}
	switch {
	case strings.Contains(s, "/"):
		return s, nil
	case strings.Contains(s, "."):
		return typePrefix + s, nil
	}
	return "", fmt.Errorf("unknown type %q: expected a type URL or one of %s", s, strings.Join(ShortNames(), ", "))
}

// ShortName gives the short name of a type URL, and of one without the URL as
// it is: types that nobody here has heard of pass through too (VAR-8).
func ShortName(typeURL string) string {
	if t := xds.Find(typeURL); t != nil && t.URL == typeURL && t.Short != "" {
		return t.Short
	}
	return typeURL
}
