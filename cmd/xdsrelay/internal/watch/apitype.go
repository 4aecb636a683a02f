package watch

import (
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// APIType is a variant of the transport, by the name that Envoy's
// ApiConfigSource has for it.
type APIType string

// The variants.
const (
	AggregatedDeltaGRPC APIType = "AGGREGATED_DELTA_GRPC" // incremental ADS (VAR-4)
	AggregatedGRPC      APIType = "AGGREGATED_GRPC"       // state-of-the-world ADS (VAR-3)
	DeltaGRPC           APIType = "DELTA_GRPC"            // incremental, one stream per type (VAR-2)
	GRPC                APIType = "GRPC"                  // state-of-the-world, one stream per type (VAR-1)
	REST                APIType = "REST"                  // polling (VAR-5)
)

// APITypes lists the variants.
func APITypes() []APIType {
	return []APIType{AggregatedDeltaGRPC, AggregatedGRPC, DeltaGRPC, GRPC, REST}
}

// ParseAPIType reads the name of a variant, in any case.
func ParseAPIType(s string) (APIType, error) {
	names := make([]string, len(APITypes()))
	for i, a := range APITypes() {
		if strings.EqualFold(s, string(a)) {
			return a, nil
		}
		names[i] = string(a)
	}
	return "", fmt.Errorf("expected one of %s", strings.Join(names, ", "))
}

// delta tells whether the variant is incremental.
func (a APIType) delta() bool { return a == AggregatedDeltaGRPC || a == DeltaGRPC || a == "" }

// Transport is what leads to the server: URL and HTTP with REST, else Conn.
type Transport struct {
	Conn grpc.ClientConnInterface
	HTTP *http.Client
	URL  string // without a path
}

// Client makes a client of a variant; "" is AggregatedDeltaGRPC.
func (t Transport) Client(a APIType, o xdsclient.Options) *xdsclient.Client {
	o.Conn, o.HTTP, o.URL = t.Conn, t.HTTP, t.URL
	o.PerType = a == DeltaGRPC || a == GRPC
	switch {
	case a == REST:
		o.Form = xdsclient.REST
	case !a.delta():
		o.Form = xdsclient.SotW
	}
	return xdsclient.New(o)
}
