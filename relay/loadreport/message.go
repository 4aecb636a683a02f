package loadreport

import (
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// message takes a request as it came. The relay counts its bytes until message returns.
type message func(data []byte) error

// Take implements wire.Taker.
func (m message) Take(data mem.BufferSlice) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return m(whole.ReadOnlyData())
}

// nodeField is the number of LoadStatsRequest.node.
const nodeField = 1

// nodeIn cuts the encoded node out of a request. Several are one in parts, as for any field of messages.
func nodeIn(request []byte) (node []byte, err error) {
	for len(request) > 0 {
		number, kind, n := protowire.ConsumeTag(request)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		request = request[n:]
		n = protowire.ConsumeFieldValue(number, kind, request)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if number == nodeField && kind == protowire.BytesType {
			part, _ := protowire.ConsumeBytes(request)
			node = append(node, part...)
		}
		request = request[n:]
	}
	return node, nil
}

// report decodes a request, and adds up what it reports. A report takes fifteen times its bytes meanwhile: so only as
// many are decoded at a time as there are processors (LIM-3).
func (s *Server) report(c *Client, data []byte, first bool) error {
	s.turns <- struct{}{}
	defer func() { <-s.turns }()
	var r loadv3.LoadStatsRequest
	if err := proto.Unmarshal(data, &r); err != nil {
		return err
	}
	if first && len(r.GetClusterStats()) == 0 {
		return nil
	}
	return c.Report(&r)
}
