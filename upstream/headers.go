package upstream

import (
	"context"
	"maps"

	"google.golang.org/grpc/metadata"

	"github.com/xdsrelay/xdsrelay/internal/tokenfile"
)

// headers go with every stream or poll of a session (ACC-6). They are never logged or shown.
type headers struct {
	fixed metadata.MD
	token *tokenfile.File // nil: no bearer token
}

// headersOf joins the metadata of an upstream and of a session, which replaces values under the
// same name, and the upstream's bearer token.
func headersOf(all, own map[string][]string, token *tokenfile.File) headers {
	md := make(metadata.MD, len(all)+len(own)+1)
	maps.Copy(md, all)
	maps.Copy(md, own)
	return headers{md, token}
}

// now returns what a stream or poll takes that begins now. The caller must not change it.
func (h headers) now() metadata.MD {
	if h.token == nil {
		return h.fixed
	}
	md := maps.Clone(h.fixed)
	md["authorization"] = []string{"Bearer " + h.token.Token()}
	return md
}

// outgoing has a gRPC call take what now returns.
func (h headers) outgoing(ctx context.Context) context.Context {
	if md := h.now(); len(md) > 0 {
		return metadata.NewOutgoingContext(ctx, md)
	}
	return ctx
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
