package downstream

import (
	"strings"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// Status is one stream or held poll on the admin port.
type Status struct {
	ID      uint64              `json:"id"`
	Variant string              `json:"variant"` // one of Variants
	Service string              `json:"service"` // the gRPC service's full name, or the path of a poll
	Peer    string              `json:"peer"`
	SPIFFE  string              `json:"spiffe_id,omitempty"`
	Node    string              `json:"node"`
	Cluster string              `json:"cluster,omitempty"`
	Scope   string              `json:"scope"`
	Since   time.Time           `json:"since"`
	Leaving bool                `json:"leaving,omitempty"` // a reload moved its subscriptions: it ends within server.drain
	Types   map[string]TypeView `json:"types"`             // by type URL
	Relay   bool                `json:"relay,omitempty"`   // the client is a relay, with clients of its own

	Listener string  `json:"listener"`      // by which the client came
	UID      *uint32 `json:"uid,omitempty"` // of a client of a unix socket
	Subject  string  `json:"token_subject,omitempty"`

	Passed *Origin `json:"passed_through,omitempty"` // where a stream goes that is served 1:1; the relay knows nothing of its types
}

// TypeView is one type of a stream, with what the client has of it.
type TypeView struct {
	TypeStatus

	State       ClientState   `json:"state"`
	Config      string        `json:"config_status"`       // in the words of the client status discovery service
	WaitsFor    delivery.Wait `json:"waits_for,omitempty"` // absent: the client has all that there is for it
	BehindSince time.Time     `json:"behind_since,omitzero"`
	Sent        string        `json:"sent_version,omitempty"` // system_version_info of the last response; version_info in the state-of-the-world form
	Held        string        `json:"held_version,omitempty"` // the same of the last response that the client acknowledged
	From        []Origin      `json:"from,omitempty"`

	Wildcard   bool                `json:"wildcard,omitempty"`
	Unanswered []string            `json:"unanswered,omitempty"` // names, globs and "*" of which the control plane has said nothing; the first of them
	Missing    []string            `json:"missing,omitempty"`    // names that do not exist; the first of them
	Counts     Counts              `json:"counts,omitzero"`
	Rejects    []delivery.Rejected `json:"rejects,omitempty"` // the first of them
	Names      []delivery.Detail   `json:"names,omitempty"`   // with names=true

	Stores []*cache.Store `json:"-"` // of which Origin tells
}

// Counts are the lengths of lists that are cut.
type Counts struct {
	Unanswered int `json:"unanswered,omitempty"`
	Missing    int `json:"missing,omitempty"`
}

// Origin is where a client's resources come from, and why.
type Origin struct {
	Upstream string `json:"upstream"`
	Scope    string `json:"scope"`
	Rule     string `json:"rule,omitempty"` // "": no rule plays a part, or "otherwise" says so
}

// ClientState is how far a client is with a type.
type ClientState string

// The states.
const (
	Current   ClientState = "current"   // it has all that there is for it, and acknowledged that
	Behind    ClientState = "behind"    // something was not sent yet, or not acknowledged
	Rejecting ClientState = "rejecting" // it rejects something
	Waiting   ClientState = "waiting"   // the relay waits for a control plane, or withholds something
)

// States are all of them.
var States = []ClientState{Current, Behind, Rejecting, Waiting}

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
	Held          string    `json:"held_version,omitempty"`        // of the last response that the client acknowledged before
	Code          string    `json:"code"`
	Message       string    `json:"message"`
}

// standing is the part of its Status that a stream or a poll keeps for that alone.
type standing struct {
	// immutable
	id    uint64
	peer  keyer.Peer
	since time.Time

	mu            sync.Mutex // guards what follows, and every TypeStatus
	node, cluster string     // of the first request
	scope         string
	leaving       bool
}

// edit calls f under the lock. f does not escape: edit allocates nothing.
func (s *standing) edit(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// statusLocked returns the Status without Variant, Service and Types.
func (s *standing) statusLocked() Status {
	st := Status{
		ID: s.id, Peer: s.peer.Addr, SPIFFE: s.peer.SPIFFE, Listener: s.peer.Through(), Node: s.node, Cluster: s.cluster,
		Scope: s.scope, Since: s.since, Leaving: s.leaving,
	}
	if s.peer.User != nil {
		st.UID = &s.peer.User.UID
	}
	if s.peer.Token != nil {
		st.Subject = clip(s.peer.Token.Subject)
	}
	return st
}

// sent adds a response.
func (t *TypeStatus) sent(resources, bytes int, at time.Time) {
	t.Responses++
	t.Resources += int64(resources)
	t.Bytes += int64(bytes)
	t.Acknowledged, t.LastSent = false, at
}

// newNack returns the rejection of the response with a nonce.
func newNack(nonce, systemVersion string, rejection *rpcstatus.Status, at time.Time) *Nack {
	return &Nack{
		At: at, Nonce: clip(nonce), SystemVersion: systemVersion,
		Code: codes.Code(rejection.GetCode()).String(), Message: reason(rejection),
	}
}

// maxShown limits the bytes of a client's text that the log and the admin port show. Reasons of
// rejections have their own limit.
const maxShown = 1 << 10

// clip cuts a client's text to maxShown bytes, and makes it valid UTF-8 (LIM-4). It keeps no reference
// to the rest.
func clip(s string) string {
	if len(s) <= maxShown {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}

// reason returns the reason of a rejection for the log, the admin port and the control plane:
// head and tail of the client's message (ACK-7).
func reason(rejection *rpcstatus.Status) string {
	return logs.Excerpt(rejection.GetMessage(), logs.ReasonBytes)
}
