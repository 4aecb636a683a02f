package restjson

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// binarySuffix ends the names of gRPC metadata whose values are bytes.
const binarySuffix = "-bin"

// Metadata gives the values of a header as gRPC metadata of that name has them: those of
// binary ones decoded, as far as they can be.
func Metadata(h http.Header, name string) []string {
	values := h.Values(name)
	if !strings.HasSuffix(name, binarySuffix) {
		return values
	}
	var decoded []string
	for _, v := range values {
		if b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(v, "=")); err == nil {
			decoded = append(decoded, string(b))
		}
	}
	return decoded
}

// SetMetadata puts gRPC metadata into headers, where binary values are in base64.
func SetMetadata(h http.Header, metadata map[string][]string) {
	for name, values := range metadata {
		for _, v := range values {
			if strings.HasSuffix(name, binarySuffix) {
				v = base64.RawStdEncoding.EncodeToString([]byte(v))
			}
			h.Add(name, v)
		}
	}
}
