package wire

import (
	"bytes"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// RedirectTypeURL is the type of a redirect, which may stand in for a resource of any
// type (LOC-1).
const RedirectTypeURL = "type.googleapis.com/xds.core.v3.ResourceLocator"

// collectionSuffix makes the type of a list collection from that of its members
// (LIST-1).
const collectionSuffix = "Collection"

// MayHold reports whether a response for a type may hold a payload of another, or of
// the same: a redirect may stand in for any resource, and a list collection is asked
// for under the type of its members too (LIST-1, NAME-5). That such a resource has the
// name of a collection is left to who knows names.
func MayHold(responseType, payloadType string) bool {
	if payloadType == responseType || payloadType == RedirectTypeURL {
		return true
	}
	member, isList := strings.CutSuffix(payloadType, collectionSuffix)
	return isList && member == responseType && member != ""
}

// mcpResourceTypeURL is the type of all resources of Istio's Mesh Configuration Protocol over xDS: its field 1 is
// metadata with the name.
const mcpResourceTypeURL = "type.googleapis.com/istio.mcp.v1alpha1.Resource"

// nameField is the field in which payloads of a type have their name. It is 0 for types that this build does not
// know: Istio's NameTable has a map of hosts in field 1 (NAME-9).
func nameField(typeURL []byte) protowire.Number {
	if _, known := xds.FindBytes(typeURL); known != nil {
		return protowire.Number(known.NameField)
	}
	return 0
}

// unnamed reports whether payloads of a type have no name in field 1: those of list
// collections, in which it holds the entries, and redirects, in which it is a number.
func unnamed(typeURL []byte) bool {
	if string(typeURL) == RedirectTypeURL {
		return true
	}
	member, isList := bytes.CutSuffix(typeURL, []byte(collectionSuffix))
	return isList && len(member) > 0 && member[len(member)-1] != '.' && member[len(member)-1] != '/'
}
