package restjson

import (
	"errors"
	"io"
	"net/http"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// Incoming is a poll that a server has read, and not decoded yet.
type Incoming struct {
	// Names are how many values its names have, and Others how many all other fields have together.
	Names, Others int
	// Presents reports whether it has a version_info.
	Presents bool

	service xds.Service
	body    []byte
}

// ReadRequest reads a poll as a server, from a body of at most limit bytes.
//
// What is refused gives a [*StatusError] for [WriteError] (REST-2): 404 for a path
// that no type has, 405 for another method than POST, 415 for what is not JSON by
// its headers, 413 for a body beyond the limit, and 400 for one that ends too early.
func ReadRequest(w http.ResponseWriter, r *http.Request, limit int64) (*Incoming, error) {
	service := serviceAt(r.URL.Path)
	if service.TypeURL == "" {
		return nil, refuse(http.StatusNotFound, "no such path; there are %s", strings.Join(Paths(), ", "))
	}
	if r.Method != http.MethodPost {
		return nil, refuse(http.StatusMethodNotAllowed, "a poll is a POST")
	}
	if err := checkHeader(r.Header); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return nil, refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", limit)
		}
		return nil, refuse(http.StatusBadRequest, "the body ends too early")
	}
	m := measured(body)
	return &Incoming{Names: m.names, Others: m.others, Presents: m.presents, service: service, body: body}, nil
}

// Size is how many bytes the body has.
func (i *Incoming) Size() int { return len(i.body) }

// Decode decodes a poll. The request that it gives has its type_url set: to that of
// the path if it says none (VAR-10). It may be that of the type's list collections
// (LIST-1). At v2's paths it is v3's type: JSON is made with types, and those of v2 are not linked.
//
// Decoding takes some hundred nanoseconds and up to 250 bytes for each value (LIM-3).
//
// 400 is for JSON that is malformed, is no DiscoveryRequest, or is one for another
// type, or for one of v2 (REST-2). Fields that this build does not know are passed over, since a newer
// client may send them.
func (i *Incoming) Decode() (*discoveryv3.DiscoveryRequest, error) {
	req := new(discoveryv3.DiscoveryRequest)
	if err := lenient().Unmarshal(i.body, req); err != nil {
		return nil, refuse(http.StatusBadRequest, "the body is no DiscoveryRequest in JSON: %s", problem(err))
	}
	if req.GetErrorDetail() != nil {
		req.ErrorDetail.Details = nil // nobody reads them
	}
	switch asked := req.GetTypeUrl(); {
	case i.service.V3 != "" && (asked == "" || asked == i.service.TypeURL):
		return nil, refuse(http.StatusBadRequest, "resources of API v2 are not served as JSON: poll with type_url %q, or ask for %s on a gRPC stream",
			i.service.V3, i.service.TypeURL)
	case asked == "":
		req.TypeUrl = i.service.TypeURL
	case !i.service.Serves(asked):
		return nil, refuse(http.StatusBadRequest, "type_url must be %s, that of its list collections, or left out at %s, and is %q",
			quoted(i.service.Types()), i.service.Path, shorten(asked, 200))
	}
	return req, nil
}

// quoted names the types that a path serves.
func quoted(types []string) string { return `"` + strings.Join(types, `" or "`) + `"` }

// checkHeader refuses a body that is not JSON. One without a type is taken to be.
func checkHeader(h http.Header) error {
	if given := h.Get("Content-Type"); given != "" && mediaType(given) != contentType {
		return refuse(http.StatusUnsupportedMediaType, "Content-Type must be %s, and is %q", contentType, shorten(given, 100))
	}
	if given := h.Get("Content-Encoding"); given != "" && !strings.EqualFold(given, "identity") {
		return refuse(http.StatusUnsupportedMediaType, "Content-Encoding must be left out, and is %q", shorten(given, 100))
	}
	return nil
}
