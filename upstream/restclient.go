package upstream

import (
	"cmp"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// restClient is the xDS client of a session that polls (REST-3): each of the Store's
// streams, that is each type and kind, has a poller. The Store must have streams per type
// (cache.Source.PerType), and take states of the world.
//
// A stream begins anew (Store.Restart) with each poller, and is lost with the first
// poll that fails. The next poller, there or at another endpoint, presents no version: a
// server that was restarted may use the held version for other content (ACK-4).
type restClient struct {
	noClocks

	// Immutable after web.client.
	remote   *remote
	session  *Session
	store    Store
	report   *report
	web      *web
	cfg      *Config
	node     *corev3.Node
	nodeSize int
	headers  headers

	delivered delivered // the session's owner's
}

// client implements transport. A server that does not serve a type answers the poll, and
// waits for nothing.
func (w *web) client(r *remote, cfg SessionConfig) (client, refusals) {
	return &restClient{
		remote: r, session: r.session, store: r.store, report: r.report, web: w, cfg: w.cfg,
		node: cfg.Node, nodeSize: cfg.NodeSize, headers: headersOf(w.cfg.Credentials.Metadata, cfg.Metadata, w.token),
		delivered: delivered{state: true},
	}, refusals{backoff: longBackoff, answer: true}
}

// sent implements client.
func (c *restClient) sent() *delivered { return &c.delivered }

// opening implements client.
func (*restClient) opening(l *line) *query {
	k, ok := l.link.(*pollLink)
	if !ok || len(k.list) == 0 {
		return nil
	}
	return &query{stream: l.id, typeURL: l.id.TypeURL, names: k.polled(k.list)}
}

// asker implements client.
func (c *restClient) asker() asker {
	return &pollAsker{c.web, c.node, c.headers}
}

// serves implements client: a type may have no path.
func (*restClient) serves(id wire.StreamID) bool {
	_, ok := restjson.Path(id.TypeURL)
	return ok
}

// silence is how long a server may leave a poll unanswered before it counts as silent, if
// Poll.AbsentAfter does not say when silence means absence.
const silence = time.Second

// settling implements client. While a server is silent about the last poll no clock runs:
// as long as a poll hangs, the relay cannot tell that its names do not exist (RES-7). Such a
// poll ends with the poll timeout. An answer settles too, and the clocks of all names of
// the type begin anew, also of those that were answered for. So a server is not silent
// before the clock of a name that it did not answer for has run out.
func (c *restClient) settling(now time.Time) {
	after := cmp.Or(c.cfg.Poll.AbsentAfter, silence)
	for _, l := range c.remote.lines {
		if k, ok := l.link.(*pollLink); ok {
			c.store.Withhold(l.id, l.id.TypeURL, k.silent(now, after))
		}
	}
}

// end implements client.
func (*restClient) end() {}
