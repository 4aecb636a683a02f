package xdsclient

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http/httptrace"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// post makes one poll, and returns the response with a digest of its body. The error is
// [restjson.ErrUnchanged] if nothing changed, or has the gRPC status code that means the same.
func (p *poller) post(ctx context.Context, req *discoveryv3.DiscoveryRequest) (wire.Received, []byte, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { p.opened() }})
	poll := restjson.Poll{
		Node: req.GetNode(), TypeURL: p.typeURL, ResourceNames: req.GetResourceNames(),
		VersionInfo: req.GetVersionInfo(), ResponseNonce: req.GetResponseNonce(), ErrorDetail: req.GetErrorDetail(),
	}
	h, err := poll.NewRequest(ctx, p.url)
	if err != nil {
		return wire.Received{}, nil, failed(codes.InvalidArgument, err)
	}
	resp, err := p.client.Do(h) //nolint:bodyclose // ReadResponse does
	if err != nil {
		return wire.Received{}, nil, failed(codes.Unavailable, err)
	}
	body := &digestedBody{ReadCloser: resp.Body, digest: sha256.New()}
	resp.Body = body
	r, err := restjson.ReadResponse(resp, p.typeURL, maxReceiveSize)
	refused, isRefusal := errors.AsType[*restjson.StatusError](err)
	undecodable, isUndecodable := errors.AsType[*restjson.UndecodableError](err)
	switch {
	case isUndecodable:
		bad := wire.Response{State: true, TypeURL: p.typeURL, Nonce: undecodable.Nonce, Version: undecodable.VersionInfo}
		return wire.Received{Response: bad, Size: body.size, Err: err}, body.digest.Sum(nil), nil
	case isRefusal:
		return wire.Received{}, nil, failed(restjson.CodeOf(refused.Code), err)
	case errors.Is(err, restjson.ErrTooLarge):
		return wire.Received{}, nil, failed(codes.ResourceExhausted, err)
	case errors.Is(err, restjson.ErrUnchanged):
		return wire.Received{}, nil, err
	case err != nil:
		return wire.Received{}, nil, failed(codes.Unavailable, err)
	}
	return wire.Received{Response: r.Response, Size: body.size}, body.digest.Sum(nil), nil
}

// digestedBody tells a body from the one before.
type digestedBody struct {
	io.ReadCloser
	digest hash.Hash
	size   int
}

func (b *digestedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.digest.Write(p[:n])
	b.size += n
	return n, err
}

// pollError is why a poll failed, with the gRPC status code that means the same:
// who judges the end of a stream need not tell the forms apart.
type pollError struct {
	code codes.Code
	text string
}

func failed(code codes.Code, err error) error {
	return &pollError{code, err.Error()}
}

func (e *pollError) Error() string { return e.text }

// GRPCStatus is what status.Code looks for.
func (e *pollError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }
