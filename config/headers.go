package config

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Headers is gRPC metadata, HTTP headers where polls go, by name: one value or several.
// Values may be credentials. They are never shown (OPS-6): what is written of a
// configuration has hiddenValue in their place.
type Headers map[string][]string

const hiddenValue = "(hidden)"

// shown is what may be shown of the headers.
func (h Headers) shown() map[string]string {
	names := make(map[string]string, len(h))
	for name := range h {
		names[name] = hiddenValue
		if strings.HasSuffix(name, binarySuffix) {
			names[name] = base64.RawStdEncoding.EncodeToString([]byte(hiddenValue))
		}
	}
	return names
}

// MarshalYAML hides the values.
func (h Headers) MarshalYAML() (any, error) { return h.shown(), nil }

// String hides the values.
func (h Headers) String() string {
	return "[" + strings.Join(slices.Sorted(maps.Keys(h)), " ") + "]"
}

// GoString hides the values.
func (h Headers) GoString() string { return h.String() }

// binarySuffix ends names whose values are bytes: in the file, and in HTTP headers, they are
// encoded in base64.
const binarySuffix = "-bin"

// Wire gives the headers as gRPC takes them: values of binary ones decoded. Headers that
// Validate refuses are left out.
func (h Headers) Wire() map[string][]string {
	if len(h) == 0 {
		return nil
	}
	out := make(map[string][]string, len(h))
	for name, values := range h {
		for _, v := range values {
			if strings.HasSuffix(name, binarySuffix) {
				decoded, err := decodeBinary(v)
				if err != nil {
					continue
				}
				v = decoded
			}
			out[name] = append(out[name], v)
		}
	}
	return out
}

// decodeBinary reads the base64 of a binary value, padded or not, as gRPC does.
func decodeBinary(v string) (string, error) {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "="))
	return string(b), err
}

// headers reads a map of strings or lists of strings. Values are not quoted in errors.
func (d *decoder) headers(n *yaml.Node, path string) Headers {
	h := make(Headers)
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "expected a mapping of names to values") // which what stands there may be
		return h
	}
	for key, value := range d.entries(n, path) {
		at := keyPath(path, key.Value)
		d.locate(key, value, at)
		list := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			list = value.Content
		}
		values := make([]string, 0, len(list))
		for _, v := range list {
			if scalarTag(v) != "!!str" {
				d.fail(v, at, "expected a string or a list of strings; put other values in quotes")
				continue
			}
			values = append(values, v.Value)
		}
		h[key.Value] = values
	}
	return h
}

// reservedHeaders belong to HTTP, to gRPC or to the polls themselves.
var reservedHeaders = []string{
	"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect", "host",
	"keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
}

// authorization is the header of bearer tokens.
const authorization = "authorization"

// headerCharacters are those that gRPC allows in the name of metadata.
const headerCharacters = "abcdefghijklmnopqrstuvwxyz0123456789-_."

// headers checks what goes upstream as metadata: what is static, and what is passed on.
func (k *checker) headers(path string, u *Upstream) {
	if u.Path != "" {
		for key, given := range map[string]bool{
			"metadata": len(u.Metadata) > 0, "forward": len(u.Forward) > 0, "credentials": u.Credentials.given(),
		} {
			if given {
				k.fail(path+"."+key, "expected either path or %s: files have no servers", key)
			}
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(u.Metadata)) {
		at := keyPath(path+".metadata", name)
		if k.headerName(at, name) {
			k.headerValues(at, name, u.Metadata[name])
		}
	}
	for i, name := range u.Forward {
		at := fmt.Sprintf("%s.forward[%d]", path, i)
		if !k.headerName(at, name) {
			continue
		}
		if first := slices.Index(u.Forward, name); first < i {
			k.fail(at, "%q is already listed as %s", name, fmt.Sprintf("%s.forward[%d]", path, first))
		}
		if _, static := u.Metadata[name]; static {
			k.fail(at, "%q has a value in metadata: a client's value cannot replace it", name)
		}
	}
	k.credentials(path, u)
}

// tokenKey is where the bearer token of an upstream is configured; "": it has none.
func (c *Credentials) tokenKey() string {
	switch {
	case c.TokenFile != "":
		return ".credentials.token_file"
	case c.SPIFFE != nil:
		return ".credentials.spiffe"
	}
	return ""
}

// credentials checks that the relay's token is the only one, and where it comes from.
func (k *checker) credentials(path string, u *Upstream) {
	key := u.Credentials.tokenKey()
	if key == "" {
		return
	}
	const message = "expected no authorization beside it: the relay sends the token under that name, and %s has it too"
	if _, static := u.Metadata[authorization]; static {
		k.fail(path+key, message, path+".metadata")
	}
	if slices.Contains(u.Forward, authorization) {
		k.fail(path+key, message, path+".forward")
	}
	if s := u.Credentials.SPIFFE; s != nil {
		if u.Credentials.TokenFile != "" {
			k.fail(path+key, "expected either spiffe or token_file: a stream has one token")
		}
		k.tokenSPIFFE(path+".credentials.spiffe", s)
	}
}

// headerName checks a name and reports whether it can be used.
func (k *checker) headerName(path, name string) bool {
	lower := strings.ToLower(name)
	switch {
	case name == "":
		k.fail(path, "expected a name, got an empty one")
	case strings.HasPrefix(name, ":"):
		k.fail(path, "%q is a pseudo header of HTTP/2, which gRPC sets; tls.server_name sets the authority", name)
	case strings.HasPrefix(lower, "grpc-"):
		k.fail(path, "%q is reserved: names that begin with grpc- are gRPC's own", name)
	case slices.Contains(reservedHeaders, lower):
		k.fail(path, "%q is reserved: HTTP and gRPC set it themselves", name)
	case name != lower && strings.Trim(lower, headerCharacters) == "":
		k.fail(path, "expected lower case, as gRPC sends it: %q, got %q", lower, name)
	case strings.Trim(name, headerCharacters) != "":
		k.fail(path, "expected lower-case letters, digits and any of -_. only, got %q", name)
	default:
		return true
	}
	return false
}

// headerValues checks the values of a header, without quoting them.
func (k *checker) headerValues(path, name string, values []string) {
	if len(values) == 0 {
		k.fail(path, "expected at least one value")
	}
	for _, v := range values {
		switch {
		case strings.HasSuffix(name, binarySuffix):
			if _, err := decodeBinary(v); err != nil {
				k.fail(path, "expected base64, because the values of names that end in -bin are bytes")
			}
		case !keyer.PrintableMetadata(v):
			k.fail(path, "expected printable ASCII; for bytes use a name that ends in -bin, and base64")
		case strings.TrimSpace(v) != v:
			k.fail(path, "expected no space at the beginning or the end")
		}
	}
}
