package upstream

import (
	"context"
	"fmt"
	"maps"

	"google.golang.org/grpc/metadata"
)

// headers go with every stream or poll of a session (ACC-6). They are never logged or shown.
type headers struct {
	fixed metadata.MD
	token bearer // nil: no bearer token
}

// headersOf joins the metadata of an upstream and of a session, which replaces values under the
// same name, and the upstream's bearer token.
func headersOf(all, own map[string][]string, token bearer) headers {
	md := make(metadata.MD, len(all)+len(own)+1)
	maps.Copy(md, all)
	maps.Copy(md, own)
	return headers{md, token}
}

// now returns what a stream or poll takes that begins now. The caller must not change it. The error is
// errNoToken, with the reason.
func (h headers) now() (metadata.MD, error) {
	if h.token == nil {
		return h.fixed, nil
	}
	token, err := h.token.Token()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoToken, err)
	}
	md := maps.Clone(h.fixed)
	md["authorization"] = []string{"Bearer " + token}
	return md, nil
}

// outgoing has a gRPC call take what now returns.
func (h headers) outgoing(ctx context.Context) (context.Context, error) {
	md, err := h.now()
	if err != nil || len(md) == 0 {
		return ctx, err
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

// conceal takes all values out of what a server says, tokens that were sent lately too.
func (h headers) conceal(err error) error {
	md := h.fixed
	if h.token != nil {
		md = maps.Clone(md)
		md["authorization"] = h.token.Lately()
	}
	return conceal(err, md)
}
