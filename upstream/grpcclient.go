package upstream

import (
	"iter"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// grpcClient is the xDS client of a session over gRPC, in any variant that the upstream
// speaks. Its fields are those that all streams of the session share. It belongs to the session's owner.
type grpcClient struct {
	// Immutable after pool.client.
	remote   *remote
	session  *Session
	store    Store
	report   *report
	pool     *pool
	cfg      *Config
	node     *corev3.Node
	nodeSize int
	headers  headers

	delivered delivered
	besides   besides
	held      *ackHold
	single    map[string]*replica // those that refuse a second stream, by StreamID.TypeURL
}

// client implements transport. A server that refuses a type does not say why.
func (p *pool) client(r *remote, cfg SessionConfig) (client, refusals) {
	state := p.cfg.APIType.State()
	return &grpcClient{
		delivered: delivered{state: state},
		remote:    r, session: r.session, store: r.store, report: r.report, pool: p, cfg: p.cfg,
		node: cfg.Node, nodeSize: nodeSize(cfg), headers: headersOf(p.cfg.Credentials.Metadata, cfg.Metadata, p.token),
		besides: newBesides(), held: newAckHold(p.cfg.Nack, r.report.log, r.session.ring), single: make(map[string]*replica),
	}, refusals{backoff: maxRetryPause}
}

// serves implements client: a type may have no service of its own.
func (c *grpcClient) serves(id wire.StreamID) bool { return c.cfg.APIType.method(id) != "" }

// connect implements client.
func (c *grpcClient) connect(l *line) (link, error) {
	ctx, err := c.headers.outgoing(c.remote.ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.pool.acquire(l.replica)
	if err != nil {
		return nil, err
	}
	c.allowSecond(l)
	api := c.cfg.APIType
	k := &streamLink{
		client: c, line: l, stream: newStream(ctx, conn, api, api.method(l.id), c.session, c.report.wrote),
		asked: make(map[string]time.Time), added: make(map[string]time.Time),
	}
	k.stream.start(c.remote.failback.openingTimeout(c.cfg), handler{opened: k.opened, response: k.respond, lost: k.lost})
	return k, nil
}

// versionsLimit is how many bytes of versions a stream may begin with: next to none if the
// control plane uses versions again (ACK-4).
func (c *grpcClient) versionsLimit() int {
	if c.remote.up.reuses.Load() {
		return 1
	}
	return versionsLimit(c.cfg.MaxRequestSize, c.nodeSize)
}

// sent implements client.
func (c *grpcClient) sent() *delivered { return &c.delivered }

// opening implements client.
func (*grpcClient) opening(l *line) *query {
	if k, ok := l.link.(*streamLink); ok {
		return k.opening
	}
	return nil
}

// asker implements client.
func (c *grpcClient) asker() asker {
	return &streamAsker{
		pool: c.pool, api: c.cfg.APIType, limit: c.cfg.MaxRequestSize, node: c.node, nodeSize: c.nodeSize, headers: c.headers,
	}
}

// ended notes that a stream ended. A server that does so with a status whenever it is asked on another
// one takes one stream of a node only.
func (c *grpcClient) ended(x *replica, cause error) {
	if x.answers.lose(c.remote, refusedBy(cause)) {
		c.report.log.Warn("server ends the stream of a node that opens another: it is not asked whether it answers", "endpoint", x.name)
	}
}

// links are the streams, and the attempts to open one, in the order of their lines.
func (c *grpcClient) links() iter.Seq[*streamLink] {
	return func(yield func(*streamLink) bool) {
		for _, l := range c.remote.lines {
			if k, ok := l.link.(*streamLink); ok && !yield(k) {
				return
			}
		}
	}
}

// rung implements client: clients may have answered a response.
func (c *grpcClient) rung() { c.answerReady(time.Now()) }

// next implements client.
func (c *grpcClient) next() time.Time {
	at := notify.Earlier(c.held.next(), c.retryAt())
	for k := range c.links() {
		if k.line.serving() {
			at = notify.Earlier(at, k.next())
		}
	}
	return at
}

// elapse implements client.
func (c *grpcClient) elapse(now time.Time) {
	c.answerReady(now)
	for k := range c.links() {
		if k.line.serving() {
			k.elapse(now)
		}
	}
	c.retry(now)
}

// settling implements client.
func (*grpcClient) settling(time.Time) {}

// tell implements client.
func (c *grpcClient) tell(w ack.Outcome) { c.held.tell(w) }

// end implements client.
func (c *grpcClient) end() {
	for typeURL := range c.single {
		c.store.OneStream(wire.StreamID{TypeURL: typeURL}, false)
	}
}

// answerReady writes the answers that are not held any longer.
func (c *grpcClient) answerReady(now time.Time) {
	for a, ok := c.held.ready(now); ok; a, ok = c.held.ready(now) {
		if a.late {
			c.report.obs.AckWaitOver()
		}
		a.write(now)
	}
}

// write writes the answer.
func (h *heldAnswer) write(now time.Time) {
	if h.link.line.draining {
		return // nothing can be written any more, and the nonce ends with the stream
	}
	var reason error
	if h.reason != nil {
		reason = &clientError{h.reason}
		h.content = contentSum(h.response)
	}
	h.link.answer(h.envelope, reason, now)
	if last := h.link.nacks[h.typeURL]; reason != nil && last != nil && last.content == h.content {
		last.changes, last.parts = h.changes, h.parts
	}
}
