package restjson

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Poll is one question to a server.
type Poll struct {
	// Node goes out with every poll: to the server each is the first one (STR-2).
	Node    *corev3.Node
	TypeURL string
	// ResourceNames are what stands in the request: empty is the legacy wildcard for
	// full-state types (SUB-4).
	ResourceNames []string
	// VersionInfo is the last accepted version, or "" or [wire.Unconfirmed] to be sent
	// everything.
	VersionInfo string
	// ResponseNonce is that of the last response.
	ResponseNonce string
	// ErrorDetail says why the last response was rejected, nil if it was not (ACK-2).
	ErrorDetail *statuspb.Status
}

// claims reports whether the poll presents the version of something.
func (p *Poll) claims() bool { return p.VersionInfo != "" && p.VersionInfo != wire.Unconfirmed }

// asEnvoy writes fields under the names that they have in the API's files, as Envoy does. All
// parsers of proto3 JSON read these, too, and there are servers that have none: to them
// resourceNames and versionInfo are unknown fields (VAR-5).
var asEnvoy = protojson.MarshalOptions{UseProtoNames: true}

// NewRequest makes the HTTP request of a poll. base is where the server's paths
// begin, such as "http://127.0.0.1:8080". It gives an error if the type cannot be
// polled or a string of the poll is not valid UTF-8.
func (p *Poll) NewRequest(ctx context.Context, base *url.URL) (*http.Request, error) {
	path, ok := Path(p.TypeURL)
	if !ok {
		return nil, fmt.Errorf("restjson: type %q cannot be polled", p.TypeURL)
	}
	text, err := asEnvoy.Marshal(&discoveryv3.DiscoveryRequest{
		VersionInfo: p.VersionInfo, Node: p.Node, ResourceNames: p.ResourceNames,
		TypeUrl: p.TypeURL, ResponseNonce: p.ResponseNonce, ErrorDetail: p.ErrorDetail,
	})
	if err != nil {
		return nil, fmt.Errorf("restjson: encode the request: %w", err)
	}
	// protojson puts spaces in at random, lest anybody rely on them.
	var body bytes.Buffer
	if err := json.Compact(&body, text); err != nil {
		return nil, fmt.Errorf("restjson: encode the request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base.JoinPath(path).String(), &body)
	if err != nil {
		return nil, fmt.Errorf("restjson: %w", err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", contentType)
	return r, nil
}
