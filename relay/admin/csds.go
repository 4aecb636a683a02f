package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// statusPath is the prefix of the methods of the client status discovery service.
const statusPath = "/envoy.service.status.v3.ClientStatusDiscoveryService/"

// maxStatus bounds a response of the service, in bytes. A client that asks for more has to match fewer nodes.
const maxStatus = 64 << 20

// clientStatus is ClientStatusDiscoveryService over a State (CSDS-1). A ClientConfig is one stream, or one poll that is
// held. It has the node's id and cluster, and a GenericXdsConfig for each name without its content.
type clientStatus struct {
	statusv3.UnimplementedClientStatusDiscoveryServiceServer

	state State
}

// handleStatus adds the service to a mux. The server has to speak HTTP/2 on the port, without TLS too.
func (p *Pages) handleStatus(mux *http.ServeMux) {
	// gRPC has goroutines of its own, in which nobody else catches a panic.
	s := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
			err = p.contained(func() (err error) { resp, err = handle(ctx, req); return err })
			return resp, err
		}),
		grpc.StreamInterceptor(func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return p.contained(func() error { return handle(service, stream) })
		}))
	statusv3.RegisterClientStatusDiscoveryServiceServer(s, &clientStatus{state: p.State})
	mux.Handle("POST "+statusPath, s)
}

// contained calls f, and gives what became of it.
func (p *Pages) contained(f func() error) error {
	if p.Contain == nil {
		return f()
	}
	return p.Contain(f)
}

// IsStatus reports whether a request is one of the client status discovery service.
func IsStatus(req *http.Request) bool { return strings.HasPrefix(req.URL.Path, statusPath) }

func gets(req *http.Request) bool {
	return req.Method == http.MethodGet || req.Method == http.MethodHead
}

// LooksOnly reports whether a request changes nothing: it is a GET, or one of the client status discovery service.
func LooksOnly(req *http.Request) bool {
	return gets(req) || IsStatus(req)
}

// StreamClientStatus answers each request of the stream.
func (c *clientStatus) StreamClientStatus(stream statusv3.ClientStatusDiscoveryService_StreamClientStatusServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		resp, err := c.FetchClientStatus(stream.Context(), req)
		if err != nil {
			return err
		}
		if err := stream.Send(resp); err != nil {
			return err
		}
	}
}

// FetchClientStatus gives the clients that one of the request's matchers matches, all without a matcher.
func (c *clientStatus) FetchClientStatus(ctx context.Context, req *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	matches, err := nodeMatcher(req.GetNodeMatchers())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	resp, size := new(statusv3.ClientStatusResponse), 0
	for _, s := range c.state.Clients(matches, everything) {
		if ctx.Err() != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		config := clientConfig(&s)
		if size += proto.Size(config); size > maxStatus {
			return nil, status.Errorf(codes.ResourceExhausted, "the status of these clients has more than %d bytes: match fewer nodes", maxStatus)
		}
		resp.Config = append(resp.Config, config)
	}
	slices.SortFunc(resp.GetConfig(), func(a, b *statusv3.ClientConfig) int {
		return cmp.Or(cmp.Compare(a.GetNode().GetId(), b.GetNode().GetId()), cmp.Compare(a.GetClientScope(), b.GetClientScope()))
	})
	return resp, nil
}

// clientConfig is one client. Its scope says by which service it came, and where its resources come from.
func clientConfig(s *downstream.Status) *statusv3.ClientConfig {
	config := &statusv3.ClientConfig{Node: &corev3.Node{Id: valid(s.Node), Cluster: valid(s.Cluster)}, ClientScope: valid(s.Service + " " + s.Scope)}
	state := s.Variant == downstream.StateADS || s.Variant == downstream.State
	for url, t := range s.Types {
		for i := range t.Names {
			config.GenericXdsConfigs = append(config.GenericXdsConfigs, xdsConfig(url, &t, &t.Names[i], state))
		}
	}
	slices.SortFunc(config.GetGenericXdsConfigs(), func(a, b *statusv3.ClientConfig_GenericXdsConfig) int {
		return cmp.Or(cmp.Compare(a.GetTypeUrl(), b.GetTypeUrl()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return config
}

// configStatus says how far the relay is with a name. STALE is no status of a client's.
var configStatus = map[string]statusv3.ConfigStatus{
	delivery.StatusRequested: statusv3.ConfigStatus_NOT_SENT,
	delivery.StatusTimeout:   statusv3.ConfigStatus_NOT_SENT,
	delivery.StatusMissing:   statusv3.ConfigStatus_SYNCED,
	delivery.StatusAcked:     statusv3.ConfigStatus_SYNCED,
	delivery.StatusNacked:    statusv3.ConfigStatus_ERROR,
	delivery.StatusStale:     statusv3.ConfigStatus_STALE,
	delivery.StatusError:     statusv3.ConfigStatus_ERROR,
}

// xdsConfig is one name of a client. The version is that which the client acknowledged; of a name that it has not, that which
// it was sent. In the state of the world it is the version_info of these responses.
func xdsConfig(url string, t *downstream.TypeView, d *delivery.Detail, state bool) *statusv3.ClientConfig_GenericXdsConfig {
	held, sent := d.Held, d.Sent
	if state && held != "" {
		held = t.Held
	}
	if state && sent != "" {
		sent = t.Sent
	}
	config := &statusv3.ClientConfig_GenericXdsConfig{
		TypeUrl: valid(url), Name: valid(d.Name), VersionInfo: valid(cmp.Or(held, sent)),
		ConfigStatus: configStatus[d.Status], ClientStatus: adminv3.ClientResourceStatus(adminv3.ClientResourceStatus_value[d.Status]),
	}
	if d.Status == delivery.StatusStale {
		config.ClientStatus = adminv3.ClientResourceStatus_REQUESTED
		if held != "" {
			config.ClientStatus = adminv3.ClientResourceStatus_ACKED // the version before
		}
	}
	if !d.Changed.IsZero() {
		config.LastUpdated = timestamppb.New(d.Changed)
	}
	switch nack := t.LastNack; {
	case d.Status == delivery.StatusNacked && nack != nil:
		config.ErrorState = &adminv3.UpdateFailureState{
			Details: valid(nack.Message), LastUpdateAttempt: timestamppb.New(nack.At), VersionInfo: valid(cmp.Or(sent, d.Cached)),
		}
	case d.Error != "":
		config.ErrorState = &adminv3.UpdateFailureState{Details: valid(d.Error)}
	}
	return config
}

// valid makes a string valid for protobuf.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

var (
	errNodeMetadata = errors.New("node_metadatas: the relay does not match metadata; match node_id (xdsrelay nodes shows the metadata of its clients)")
	errNoMatcher    = errors.New("a matcher without node_id matches nothing")
)

// nodeMatcher gives what one of several matchers matches, of the ids of nodes. Without a matcher it is everything.
func nodeMatcher(of []*matcherv3.NodeMatcher) (matches func(id string) bool, err error) {
	var matchers []func(string) bool
	for _, m := range of {
		switch {
		case len(m.GetNodeMetadatas()) > 0:
			return nil, errNodeMetadata
		case m.GetNodeId() == nil:
			return nil, errNoMatcher
		}
		one, err := stringMatcher(m.GetNodeId())
		if err != nil {
			return nil, err
		}
		matchers = append(matchers, one)
	}
	return func(id string) bool {
		return len(matchers) == 0 || slices.ContainsFunc(matchers, func(one func(string) bool) bool { return one(id) })
	}, nil
}

// stringMatcher gives what a matcher matches. A regular expression has to match the whole string.
func stringMatcher(m *matcherv3.StringMatcher) (func(string) bool, error) {
	fold := func(s string) string { return s }
	if m.GetIgnoreCase() {
		fold = strings.ToLower
	}
	with := func(compare func(s, pattern string) bool, pattern string) (func(string) bool, error) {
		pattern = fold(pattern)
		return func(s string) bool { return compare(fold(s), pattern) }, nil
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return with(func(s, exact string) bool { return s == exact }, p.Exact)
	case *matcherv3.StringMatcher_Prefix:
		return with(strings.HasPrefix, p.Prefix)
	case *matcherv3.StringMatcher_Suffix:
		return with(strings.HasSuffix, p.Suffix)
	case *matcherv3.StringMatcher_Contains:
		return with(strings.Contains, p.Contains)
	case *matcherv3.StringMatcher_SafeRegex:
		re, err := regexp.Compile(`^(?:` + p.SafeRegex.GetRegex() + `)$`)
		if err != nil {
			return nil, fmt.Errorf("node_id: %w", err)
		}
		return re.MatchString, nil
	}
	return nil, errors.New("node_id: the matcher is none of exact, prefix, suffix, contains and safe_regex")
}
