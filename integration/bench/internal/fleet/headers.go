package fleet

import (
	"bytes"
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// Methods of the aggregated discovery service.
const (
	deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	stateMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
)

// requestHeaders encodes the headers that open a stream. They are the same on each:
// nothing of them is put into a table.
func requestHeaders(authority, method string) ([]byte, error) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSizeLimit(0)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: authority},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "user-agent", Value: "xdsrelay-bench"},
		{Name: "te", Value: "trailers"},
	} {
		if err := e.WriteField(f); err != nil {
			return nil, fmt.Errorf("encoding headers: %w", err)
		}
	}
	return b.Bytes(), nil
}

// trailerError says with which status a stream ended.
func trailerError(block []byte) error {
	fields, err := hpack.NewDecoder(0, nil).DecodeFull(block)
	if err != nil {
		return fmt.Errorf("the stream ended, with headers that cannot be read: %w", err)
	}
	code, message := "none", ""
	for _, f := range fields {
		switch f.Name {
		case "grpc-status":
			code = f.Value
		case "grpc-message":
			message = f.Value
		}
	}
	return fmt.Errorf("the server ended the stream with gRPC status %s %q", code, message)
}
