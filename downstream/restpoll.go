package downstream

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// poll is one poll: a stream of one request and at most one response. Nothing of it
// outlives the answer, so what a stream would remember is in what the client
// presents: version_info is that of what it accepted, and the nonce is a digest of
// what it was sent, the same in every replica.
type poll struct {
	// immutable after newPoll
	server  *Server
	id      uint64
	request *discovery.DiscoveryRequest
	names   []string // that it asks for, with parameters or without (wire.Locator)
	client  pollClient
	peer    keyer.Peer
	since   time.Time
	log     *slog.Logger
	bell    chan struct{} // one slot: there may be something new
	routes  Routes
	form    cache.Form
	failed  string // digest of what could not be sent to the client as JSON before

	// owned by the handler goroutine
	places     []*cache.Client
	refused    []cache.NamedError // names that the relay itself answers
	held       *cache.Snapshot    // what the subscriptions hold now
	distrusted bool               // versions that the client presents may be another scope's
	plan       uint64             // Server.plans when it last compared where the names live
	over       bool               // its time is

	// guarded by Server.mu once it is shown
	subscriptions int
	scope         string
}

// mergeTime is how long changes are gathered before a held poll is answered.
const mergeTime = 5 * time.Millisecond

func (s *Server) newPoll(peer keyer.Peer, r *discovery.DiscoveryRequest) *poll {
	node := r.GetNode()
	p := &poll{
		server: s, id: s.lastID.Add(1), request: r, client: clientOf(peer, r), peer: peer,
		since: time.Now(), bell: make(chan struct{}, 1),
		plan: s.plans.Load(), // before routes are opened: one that comes in between is looked at
	}
	p.routes = s.config.Router.Open(node, &p.peer)
	p.names = wire.Words(r.GetResourceNames(), r.GetResourceLocators())
	p.form = cache.Form{State: true, Wrapped: wraps(node, p.names)}
	p.log = s.log.With("poll", p.id, "peer", peer.Addr, "node", clip(node.GetId()), "type", r.GetTypeUrl())
	p.failed = s.pollers.failed(p.client)
	return p
}

// fullState reports whether the type's responses are always complete (RES-2).
func (p *poll) fullState() bool { return p.server.config.FullState[p.request.GetTypeUrl()] }

// subscribe subscribes to the names for as long as the poll lasts. What nobody else
// watches stays subscribed upstream (SUB-11), so that the next poll finds it.
func (p *poll) subscribe() error {
	names, unnamed := p.asked(), len(p.names) == 0
	wanted := make(map[*cache.Store][]cache.Name)
	var stores []*cache.Store
	seen, admitted := make(map[string]bool, len(names)), 0
	for _, spelling := range names {
		if seen[spelling] {
			continue
		}
		seen[spelling] = true
		store, name, err := locate(p.routes, p.request.GetTypeUrl(), spelling)
		if most := p.server.limits.Load().MaxSubscriptions; err == nil && most > 0 && admitted == most {
			err = p.server.beyond("in one poll")
		}
		if r := refusal(err); r != nil {
			p.refuse(spelling, r)
			continue
		}
		if err != nil {
			return err
		}
		admitted++
		if unnamed {
			name.Spelling = "" // SUB-4
		}
		if wanted[store] == nil {
			stores = append(stores, store)
		}
		wanted[store] = append(wanted[store], name)
	}
	n := 0
	for _, store := range stores {
		c := store.Join(p.ring, p.form)
		p.distrusted = p.distrusted || p.routes.Distrusts(store)
		p.places = append(p.places, c)
		c.Update(cache.Change{TypeURL: p.request.GetTypeUrl(), Subscribe: wanted[store]})
		n += c.Watches(p.request.GetTypeUrl())
	}
	p.counted(n)
	return nil
}

// asked gives the names that the poll subscribes to.
func (p *poll) asked() []string {
	if len(p.names) == 0 && p.fullState() {
		return []string{cache.Wildcard} // SUB-4
	}
	return p.names
}

// counted notes how many subscriptions there are now, and in which scope.
func (p *poll) counted(n int) {
	p.server.mu.Lock()
	delta := n - p.subscriptions
	p.subscriptions, p.scope = n, p.routes.Scope()
	p.server.mu.Unlock()
	p.server.observer.Subscribed(p.request.GetTypeUrl(), delta)
}

// refuse tells of a name that the relay answers itself. A client repeats it with
// every poll: the log has it once.
func (p *poll) refuse(spelling string, r *refusedError) {
	spelling = wire.LocatedName(spelling)
	p.server.observer.Refused(p.request.GetTypeUrl(), r.code)
	e := &wire.ResourceError{Name: spelling, Code: r.code, Message: r.Error()}
	if p.server.sayable(e) && len(p.refused) < p.server.answerable(0) { // ABS-4
		p.refused = append(p.refused, cache.NamedError{Error: e, Name: spelling})
	}
	if p.server.pollers.refused(p.client) {
		p.log.Warn("refused a subscription", "name", clip(spelling), "reason", r.Error())
	}
}

// show puts the poll on the admin port.
func (p *poll) show() {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.server.polls[p.id] = p
}

// close gives the poll's places back.
func (p *poll) close() {
	s := p.server
	s.mu.Lock()
	delete(s.polls, p.id)
	s.mu.Unlock()
	p.counted(0)
	for _, c := range p.places {
		c.Leave()
	}
	p.routes.Close()
}

// run gives the answer when there is something that the client lacks, or its time
// is over (REST-1).
func (p *poll) run(ctx context.Context) *answer {
	if p.reroute() { // nobody rang before the poll was shown
		return p.sentAway()
	}
	p.look()
	if p.request.GetErrorDetail() != nil {
		p.rejected()
	} else if v := p.request.GetVersionInfo(); v != "" && (v == p.version() || v == p.nonce()) {
		p.tell(verdict.Word{Kind: verdict.Accepted})
	}
	if a := p.unserved(); a != nil {
		return a
	}
	if p.news() {
		return p.answer()
	}
	if p.rejects() {
		p.server.observer.Rejecting(p.request.GetTypeUrl(), 1)
		defer p.server.observer.Rejecting(p.request.GetTypeUrl(), -1)
	}
	end := time.NewTimer(p.wait())
	defer end.Stop()
	drain := p.server.drain
	var merged, leave, moves <-chan time.Time
	for {
		select {
		case <-p.bell:
			if merged == nil {
				merged = time.After(mergeTime)
			}
			continue
		case <-merged:
			merged = nil
		case <-end.C:
			if moves != nil {
				return p.sentAway()
			}
			return p.end()
		case <-drain:
			drain = nil
			leave = time.After(p.server.leaving())
			continue
		case <-moves:
			return p.sentAway()
		case <-leave:
			return &answer{code: http.StatusNotModified, leave: true}
		case <-p.server.stop:
			return draining()
		case <-ctx.Done():
			return gone()
		}
		if p.reroute() {
			moves = time.After(p.server.movesIn())
		}
		if a := p.unserved(); a != nil {
			return a
		}
		if p.look(); p.news() {
			return p.answer()
		}
	}
}

// unserved refuses a poll while there is nothing that it could be answered, nil if there may
// be (ABS-2).
func (p *poll) unserved() *answer {
	cause, none := cache.Outage(p.places)
	if !none {
		return nil
	}
	p.server.observer.Unserved(REST)
	return refused(status.Error(codes.Unavailable, cause))
}

// sentAway is the answer to a poll whose names live elsewhere now. A client that has
// nothing gets an error, since there is nothing that could be unchanged.
func (p *poll) sentAway() *answer {
	if p.request.GetVersionInfo() == "" {
		return refused(errMoved)
	}
	return unchanged()
}

// ring notes that there may be something new. It may be called from any goroutine.
func (p *poll) ring() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// wait is how long the poll is held: a little less than configured, and not the
// same for all, so that a fleet does not come back in step.
func (p *poll) wait() time.Duration {
	most := p.server.limits.Load().RESTWait
	return most - rand.N(most/10+1) //nolint:gosec // spreading, not secrecy
}

// look takes what the subscriptions hold now.
func (p *poll) look() {
	p.held = cache.TakeSnapshot(p.places, p.request.GetTypeUrl(), p.refused...)
}

// news reports whether the client is to be sent what is held now. It is not if it
// has accepted it or rejected it (ACK-3), which the version and the nonce say, or
// if it is known that it cannot be sent. As long as a list would lack what is only
// not known yet it waits, lest a cold relay delete what a client holds (RES-2): but
// one that presents nothing has nothing to lose. Where absence is no deletion, what
// there is goes out (RES-3).
func (p *poll) news() bool {
	switch s := p.held; {
	case p.has(), s.Digest == p.failed:
		return false
	case s.Lacks:
		return false
	case p.fullState() && s.Complete:
		return true
	case p.fullState() && p.request.GetVersionInfo()+p.request.GetResponseNonce() != "":
		return false
	case p.fullState():
		// Errors alone would give the client a version, and so something to lose: it
		// would wait for all the rest then.
		return len(s.Resources) > 0
	case len(s.Resources) > 0:
		return true
	default:
		// What the relay says itself can wait for what the servers do, as long as the poll.
		return final(s.Errors) && (len(s.Errors) > len(p.refused) || s.Complete || p.over)
	}
}

// final reports whether an answer may hold nothing but these errors. Clients take it for the
// word that there is nothing of what they ask for, so one of them has to say more than that
// nobody knows (RES-7).
func final(errors []cache.NamedError) bool {
	return slices.ContainsFunc(errors, func(e cache.NamedError) bool { return e.Error.Code != codes.Unavailable })
}

// has reports whether the client accepted or rejected what is held now.
func (p *poll) has() bool {
	version, nonce := p.request.GetVersionInfo(), p.request.GetResponseNonce()
	return p.nonce() == version || p.nonce() == nonce || p.version() == version
}

// nonce is that of the answer: the digest of what is held, the same in every replica.
// While versions are distrusted it is another digest, which no client got before.
func (p *poll) nonce() string {
	if p.distrusted {
		return cache.MovedDigest(p.held.Digest)
	}
	return p.held.Digest
}

// version is the version_info of the answer.
func (p *poll) version() string {
	if p.distrusted {
		return p.nonce()
	}
	return p.held.Version
}

// end is the answer when the time is over: also if something has changed in the
// very last moment, and if the reason that nothing was sent is that it cannot be.
func (p *poll) end() *answer {
	p.over = true
	p.look()
	if p.news() || p.held.Digest == p.failed {
		return p.answer()
	}
	return unchanged()
}

// rejected takes a NACK: error_detail makes it one (ACK-1).
func (p *poll) rejected() {
	s, r := p.server, p.request
	message := reason(r.GetErrorDetail())
	nack := Nack{
		At: time.Now(), Nonce: clip(r.GetResponseNonce()),
		Code: codes.Code(r.GetErrorDetail().GetCode()).String(), Message: message,
	}
	s.observer.Nacked(r.GetTypeUrl())
	p.log.Log(context.Background(), s.rejected.level(r.GetTypeUrl(), p.client), "client rejected a response", "nonce", nack.Nonce, "reason", message)
	if p.nonce() == r.GetResponseNonce() {
		nack.SystemVersion = p.version()
		p.tell(verdict.Word{Kind: verdict.Rejected, Reason: clip(r.GetNode().GetId()) + ": " + message})
	}
	s.pollers.rejected(p.client, &nack)
}

// tell tells the control planes what became of what is held now (ACK-7). Where there are
// several, nobody knows which of them a rejection is for.
func (p *poll) tell(w verdict.Word) {
	w.TypeURL, w.Client = p.request.GetTypeUrl(), maphash.Comparable(p.server.seed, p.client)
	if w.Kind == verdict.Rejected && len(p.held.Parts) > 1 {
		return
	}
	for _, part := range p.held.Parts {
		w.Of = part.Content
		p.routes.Tell(part.Store, w)
	}
}

// rejects reports whether the client rejected what is held now.
func (p *poll) rejects() bool {
	_, last := p.server.pollers.rejections(p.client)
	return last != nil && last.Nonce == p.nonce()
}

// status is what the admin port shows.
func (p *poll) status() Status {
	p.server.mu.Lock()
	subscriptions, scope := p.subscriptions, p.scope
	p.server.mu.Unlock()
	path, _ := restjson.Path(p.request.GetTypeUrl())
	t := TypeStatus{Subscriptions: subscriptions}
	t.Nacks, t.LastNack = p.server.pollers.rejections(p.client)
	return Status{
		ID: p.id, Variant: REST, Service: path, Peer: p.peer.Addr, SPIFFE: p.peer.SPIFFE,
		Node: clip(p.request.GetNode().GetId()), Cluster: clip(p.request.GetNode().GetCluster()),
		Scope: scope, Since: p.since, Types: map[string]TypeStatus{p.request.GetTypeUrl(): t},
	}
}
