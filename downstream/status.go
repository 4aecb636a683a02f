package downstream

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/excerpt"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// Status is what the admin port shows of one stream.
type Status struct {
	ID      uint64                `json:"id"`
	Variant string                `json:"variant"` // one of Variants
	Service string                `json:"service"` // the gRPC service's full name, or the path of a poll
	Peer    string                `json:"peer"`
	SPIFFE  string                `json:"spiffe_id,omitempty"`
	Node    string                `json:"node"`
	Cluster string                `json:"cluster,omitempty"`
	Scope   string                `json:"scope"`
	Since   time.Time             `json:"since"`
	Leaving bool                  `json:"leaving,omitempty"` // a reload moved its subscriptions: it ends within server.drain
	Types   map[string]TypeStatus `json:"types"`             // by type URL
}

// standing is what of its Status a stream keeps for that alone.
type standing struct {
	node, cluster, scope string
	leaving              bool
}

// TypeStatus is one type of a stream.
type TypeStatus struct {
	Subscriptions int       `json:"subscriptions"`
	Responses     int64     `json:"responses"`
	Resources     int64     `json:"resources"`
	Bytes         int64     `json:"bytes"`
	Acknowledged  bool      `json:"acknowledged"` // the last response, and not rejected
	LastSent      time.Time `json:"last_sent,omitzero"`
	Nacks         int64     `json:"nacks"`
	LastNack      *Nack     `json:"last_nack,omitempty"`
}

// Nack is a response that a client rejected (ACK-7).
type Nack struct {
	At            time.Time `json:"at"`
	Nonce         string    `json:"nonce"`
	SystemVersion string    `json:"system_version_info,omitempty"` // of the last response for the type; version_info in the state-of-the-world form
	Code          string    `json:"code"`
	Message       string    `json:"message"`
}

// Streams lists the open streams and the polls that are held, by ID.
func (s *Server) Streams() []Status {
	s.mu.Lock()
	streams, polls := slices.Collect(maps.Values(s.streams)), slices.Collect(maps.Values(s.polls))
	s.mu.Unlock()
	all := make([]Status, 0, len(streams)+len(polls))
	for _, st := range streams {
		all = append(all, st.snapshot())
	}
	for _, p := range polls {
		all = append(all, p.status())
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (st *stream) snapshot() Status {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := Status{
		ID: st.id, Variant: st.variant.String(), Service: st.variant.service.name,
		Peer: st.peer.Addr, SPIFFE: st.peer.SPIFFE, Since: st.since,
		Node: st.status.node, Cluster: st.status.cluster, Scope: st.status.scope,
		Leaving: st.status.leaving,
		Types:   make(map[string]TypeStatus, len(st.types)),
	}
	for _, t := range st.types {
		s.Types[t.url] = t.status
	}
	return s
}

// sentOne, acked and nacked keep what the admin port shows of a type.
func (st *stream) sentOne(t *typeState, systemVersion string, resources, bytes int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	t.systemVersion = systemVersion
	t.status.Responses++
	t.status.Resources += int64(resources)
	t.status.Bytes += int64(bytes)
	t.status.Acknowledged, t.status.LastSent = false, t.sentAt
}

func (st *stream) acked(t *typeState) {
	st.mu.Lock()
	defer st.mu.Unlock()
	t.status.Acknowledged = true
}

func (st *stream) nacked(t *typeState, r *discoveryRequest, now time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	t.status.Nacks++
	t.status.LastNack = &Nack{
		At: now, Nonce: clip(r.nonce), SystemVersion: t.systemVersion,
		Code: codes.Code(r.rejection.GetCode()).String(), Message: reason(r.rejection),
	}
}

// maxShown bounds what is kept and logged of a client's words, in bytes, reasons of
// rejections aside.
const maxShown = 1 << 10

// reason is the reason of a rejection as it is logged, kept and told upstream: head and tail
// of what the client says (ACK-7).
func reason(rejection *rpcstatus.Status) string {
	return excerpt.Of(rejection.GetMessage(), excerpt.Reason)
}

// clip shortens what a client says for people, without keeping the rest of it in
// memory.
func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
