package downstream

import (
	"log/slog"
	"slices"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// polling has the parts of a server that only polls use. All polls use them.
type polling struct {
	closing  *closing
	payloads *payloads
	pollers  *pollers
	writing  writing
	turns    writingTurns
	held     map[caller]int // how many polls of each client are held; guarded by Server.mu
	judging  judging
}

func newPolling(c *closing) *polling {
	return &polling{closing: c, payloads: newPayloads(maxPayloadBytes), pollers: newPollers(), turns: newWritingTurns(), held: make(map[caller]int)}
}

// caller is a client that polls, as far as polls_per_client goes: behind one address there may be a whole
// fleet, with one identity.
type caller struct {
	from quota.Client
	node string
}

func (p *poll) caller() caller { return caller{quota.ClientOf(&p.standing.peer), p.standing.node} }

// poll is one poll: a stream of one request and at most one response. It ends with the answer. The
// next request presents everything that a stream would remember: version_info is that of the last
// accepted response, and the nonce is a digest of the last response, the same in every replica.
type poll struct {
	// immutable after newPoll
	shared  *shared
	polling *polling
	request *discovery.DiscoveryRequest
	came    arrival
	names   []string // of the request (wire.Words)
	client  pollClient
	log     *slog.Logger
	bell    chan struct{} // one slot: the content may have changed
	form    delivery.Form
	failed  string // digest of the content that could not be sent to the client as JSON before

	standing standing

	// owned by the handler goroutine
	routing       routing
	places        []*delivery.Place
	refused       pollRefusals
	held          *delivery.Snapshot // the present content of the subscriptions
	distrusted    bool               // the client may have its versions from another server
	waits         waits
	subscriptions int  // written under standing.mu, as is the next
	rejects       bool // what there was when the poll began to wait
}

// pollRefusals are the names of a poll that the relay refuses, and what it may ask for.
type pollRefusals struct {
	part  *quota.Part           // what its names weigh, of all names; nil: little
	names []delivery.NamedError // those that get an answer
	left  allowance             // for further ones
}

// newPoll begins a poll. The error is a status: the client may not present its node.
func newPoll(s *shared, polling *polling, peer keyer.Peer, came arrival, r *discovery.DiscoveryRequest) (*poll, error) {
	node := r.GetNode()
	if err := s.limits.Load().large(proto.Size(node)); err != nil {
		s.observer.Limited(LimitNode)
		return nil, err
	}
	p := &poll{
		shared: s, polling: polling, request: r, came: came, client: clientOf(peer, r), bell: notify.New(),
		standing: standing{
			id: s.lastID.Add(1), peer: peer, since: time.Now(), node: clip(node.GetId()), cluster: clip(node.GetCluster()),
		},
		// Read before the routes are opened: the poll looks at a plan that comes in between.
		routing: routing{plan: s.plans.number.Load()},
	}
	var err error
	if p.routing.routes, err = s.config.Router.Open(node, &p.standing.peer); err != nil {
		return nil, err
	}
	p.names = wire.Words(r.GetResourceNames(), r.GetResourceLocators())
	p.form = delivery.Form{State: true, Wrapped: wraps(node), Relay: isRelay(peer)}
	p.log = s.log.With("poll", p.standing.id, "peer", peer.Addr, "node", p.standing.node, "type", r.GetTypeUrl())
	p.failed = polling.pollers.of(p.client).failed
	return p, nil
}

// fullState reports whether responses of the type are always complete (RES-2).
func (p *poll) fullState() bool { return p.shared.config.FullState[p.request.GetTypeUrl()] }

// subscribe subscribes to the names until the poll ends. The relay stays subscribed upstream for
// a while (SUB-11), so that the next poll finds the resources in the cache.
func (p *poll) subscribe() error {
	names, unnamed := p.asked(), len(p.names) == 0
	typeURL, l := p.request.GetTypeUrl(), p.shared.limits.Load()
	ch := newChange(p.routing.routes, &typeState{url: typeURL})
	total := p.reservePoll(names)
	limit := newNameQuota(l, l.left(0, 0, total), "in one poll", nil, typeURL, names, nil)
	p.refused.left = l.answerable(0, 0, forAnswers(limit, total, names))
	seen := make(map[string]bool, len(names))
	for _, spelling := range names {
		if seen[spelling] {
			continue
		}
		seen[spelling] = true
		store, name, err := p.locateFor(ch.routes, spelling, limit)
		if r := refusal(err); r != nil {
			p.refuse(spelling, r)
			continue
		}
		if err != nil {
			return err
		}
		if unnamed {
			name.Spelling = "" // SUB-4
		}
		ch.subscribe(store, name, len(names))
	}
	n := 0
	for _, store := range ch.stores {
		c := delivery.Join(store, p.ring, p.form)
		c.JudgedBy(judgeOf(ch.routes.Access()), false)
		p.distrusted = p.distrusted || ch.changes[store].Distrust
		p.places = append(p.places, c)
		c.Update(ch.changes[store])
		p.waits.forPeers = append(p.waits.forPeers, store.Peers().Wants())
		n += c.Watches(typeURL)
	}
	p.count(n)
	return nil
}

// reservePoll is reserve for the names of a poll, until it ends.
func (p *poll) reservePoll(names []string) *int {
	asked := weightOf(len(names), bytesIn(names))
	if asked <= freeNames {
		return nil
	}
	p.refused.part = p.shared.names.Begin()
	return new(p.refused.part.Grow(asked, func() quota.Client { return quota.ClientOf(&p.standing.peer) }))
}

// locateFor returns the store and the key of a name that is within the limits.
func (p *poll) locateFor(routes Routes, spelling string, limit *nameQuota) (*cache.Store, cache.Name, error) {
	l := p.shared.limits.Load()
	if err := tooLong(spelling, l.PerClient.NameBytes); err != nil { // ABS-4
		p.shared.observer.Limited(LimitName)
		return nil, cache.Name{}, err
	}
	store, name, err := locate(routes, p.request.GetTypeUrl(), spelling)
	if c := crowded(err); c != nil {
		p.shared.observer.Limited(c.limit)
	}
	if err == nil {
		err = limit.check(spelling, p.shared.observer)
	}
	return store, name, err
}

// asked returns the names that the poll subscribes to.
func (p *poll) asked() []string {
	if len(p.names) == 0 && p.fullState() {
		return []string{cache.Wildcard} // SUB-4
	}
	return p.names
}

// count counts the subscriptions, and notes the scope.
func (p *poll) count(n int) {
	delta, scope := n-p.subscriptions, p.routing.routes.Scope()
	p.standing.edit(func() { p.subscriptions, p.standing.scope = n, scope })
	p.shared.observer.Subscribed(p.request.GetTypeUrl(), delta)
}

// refuse adds the error of a name that the relay refuses. The client repeats the name with every
// poll. The log has it once.
func (p *poll) refuse(spelling string, r *refusedError) {
	spelling, _ = wire.CutWord(spelling)
	p.shared.observer.Refused(p.request.GetTypeUrl(), r.code)
	e := &wire.ResourceError{Name: spelling, Code: r.code, Message: r.Error()}
	l := p.shared.limits.Load()
	if fits(0, e, l.room()) && p.refused.left.spend(len(spelling)) { // ABS-4
		p.refused.names = append(p.refused.names, delivery.NamedError{Error: e, Name: spelling})
	}
	if p.polling.pollers.refused(p.client) {
		p.log.Warn("refused a subscription", "name", clip(spelling), "reason", r.Error())
	}
}

// close ends the poll's subscriptions.
func (p *poll) close() {
	if p.refused.part != nil {
		p.refused.part.End()
	}
	p.shared.try(func() { p.count(0) })
	for _, c := range p.places {
		p.shared.try(c.Leave)
	}
	p.shared.try(p.routing.routes.Pause)
}

// ring notes that the content may have changed. It may be called from any goroutine.
func (p *poll) ring() {
	notify.Signal(p.bell)
}

// look takes the present content of the subscriptions. Restored resources replace nothing that the
// client presents (SUR-1). Where absence is no deletion the answer goes without them: a server of
// the state of the world may never confirm one, if it is gone (RES-3).
func (p *poll) look() {
	p.held = delivery.TakeSnapshot(p.places, p.request.GetTypeUrl(), p.refused.names...)
	if p.held.Restored && p.presents() && !p.fullState() && !p.has() && !p.hasContent() {
		p.held = p.held.Confirmed()
	}
}

// news reports whether to answer with the present content. It does not if the client has accepted or
// rejected that (ACK-3): the version and the nonce show it. It does not if the relay knows
// that the content cannot be sent. A list of a full-state type waits until it is complete: otherwise a
// cold relay would make the client delete resources (RES-2). A list of which nothing is known is never
// sent, however long that takes (ABS-3). A client that presents nothing has nothing to delete, and gets
// an incomplete list, unless it is a relay. For other types absence is no deletion: the answer has
// everything that there is (RES-3). A relay concludes from it which members a collection has, and
// waits until they are all there. A first answer of any type waits until peers were asked for what it lacks.
func (p *poll) news() bool {
	switch s := p.held; {
	case p.has(), s.Digest == p.failed:
		return false
	case s.Open && p.form.Relay:
		return false
	case s.Restored && p.presents() && (p.fullState() && s.Awaited || len(s.Resources) == 0):
		return false
	case !s.Complete && !p.waits.over && p.hasContent():
		// What differs are errors, and there may be more: a name that does not exist is not kept
		// between polls (RES-17), and each poll has the server asked for it.
		return false
	case p.fullState() && !s.Known:
		return false
	case !s.Complete && !p.presents() && p.waits.peersDue(p.places):
		// The answer would give the client a version. What peers give is restored content, and does not go to
		// the next poll, which presents that version (SUR-1).
		return false
	case p.fullState() && s.Complete:
		return true
	case p.fullState() && (p.presents() || p.form.Relay):
		return false
	case p.fullState():
		// An answer with errors alone would give the client a version. Its next poll would
		// then wait until the list is complete.
		return len(s.Resources) > 0
	case len(s.Resources) > 0:
		return true
	default:
		// The relay's own errors wait for answers of the servers, until the poll's time is over.
		return final(s.Errors) && (len(s.Errors) > len(p.refused.names) || s.Complete || p.waits.over)
	}
}

// presents reports whether the client has something already.
func (p *poll) presents() bool {
	return p.request.GetVersionInfo()+p.request.GetResponseNonce() != ""
}

// final reports whether an answer may have nothing but these errors. For the client such an answer
// means that no resource exists. So at least one error must mean more than that the relay does not
// know (RES-7).
func final(errors []delivery.NamedError) bool {
	return slices.ContainsFunc(errors, func(e delivery.NamedError) bool { return e.Error.Code != codes.Unavailable })
}

// has reports whether the client accepted or rejected the present content.
func (p *poll) has() bool {
	version, nonce := p.request.GetVersionInfo(), p.request.GetResponseNonce()
	return p.nonce() == nonce || p.shows(version)
}

// shows reports whether a version_info is that of what is held now: the digest that is the
// nonce, with any label, or the server's own.
func (p *poll) shows(version string) bool {
	return p.nonce() == cache.PlainVersion(version) || p.version() == version
}

// hasContent reports whether the client accepted or rejected the present resources, with whatever
// errors.
func (p *poll) hasContent() bool {
	version, nonce := p.request.GetVersionInfo(), p.request.GetResponseNonce()
	content := p.content()
	return delivery.ContentOf(nonce) == content || delivery.ContentOf(cache.PlainVersion(version)) == content
}

// content returns the digest of the resources in the nonce. While the relay distrusts versions it
// is another digest, which no client has yet.
func (p *poll) content() string {
	if p.distrusted {
		return cache.MovedDigest(p.held.Content)
	}
	return p.held.Content
}

// nonce returns the nonce of the answer: the digest of the content, the same in every replica.
func (p *poll) nonce() string { return p.held.DigestOf(p.content()) }

// version returns the version_info of the answer.
func (p *poll) version() string {
	if p.distrusted {
		return p.nonce()
	}
	return p.held.Version
}

// warned has a poll with error_detail that rejects nothing count as one without (ACK-1), and reports that.
func (p *poll) warned() bool {
	if !warnings(p.request.GetErrorDetail()) {
		return false
	}
	warned := logs.Excerpt(p.request.GetErrorDetail().GetMessage(), logs.ReasonBytes)
	p.shared.observer.Warned(p.request.GetTypeUrl())
	p.log.Info("client accepted a response with warnings", "nonce", clip(p.request.GetResponseNonce()), "warnings", warned)
	p.request.ErrorDetail = nil
	return true
}

// rejected takes a NACK: the request has error_detail (ACK-1).
func (p *poll) rejected() {
	typeURL := p.request.GetTypeUrl()
	nonce, version := p.request.GetResponseNonce(), ""
	current := p.nonce() == nonce
	if current {
		version = p.version()
	}
	nack := newNack(nonce, version, p.request.GetErrorDetail(), time.Now())
	p.shared.observer.Nacked(typeURL, nackReason(nack.Message))
	p.log.Warn("client rejected a response", "nonce", nack.Nonce, "reason", nack.Message)
	if current {
		p.tell(ack.Outcome{Kind: ack.Rejected, Reason: p.standing.node + ": " + nack.Message})
	}
	p.polling.pollers.rejected(p.client, nack)
}

// tell tells the control planes how the client answered the present content (ACK-7).
func (p *poll) tell(w ack.Outcome) {
	w.TypeURL, w.Relay = p.request.GetTypeUrl(), p.form.Relay
	p.routing.tell(w, p.held.Parts, nil)
}

// status returns the poll's Status. A poll that is held has what there is.
func (p *poll) status(delivery.Wanted) Status {
	p.standing.mu.Lock()
	defer p.standing.mu.Unlock()
	typeURL := p.request.GetTypeUrl()
	s, known := p.standing.statusLocked(), p.polling.pollers.of(p.client)
	s.Variant, s.Relay = REST, p.form.Relay
	s.Service = p.came.path
	v := TypeView{TypeStatus: TypeStatus{Subscriptions: p.subscriptions, Nacks: known.nacks, LastNack: known.last}, State: Current, Config: configSynced}
	if p.rejects {
		v.State, v.Config = Rejecting, configError
	}
	s.Types = map[string]TypeView{typeURL: v}
	return s
}
