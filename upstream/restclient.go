package upstream

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// restClient is the xDS client of a session that polls (REST-3): each of the Store's
// streams, that is each type and kind, has a poller. The Store must have streams per type
// (cache.Source.PerType), and take states of the world.
//
// A stream begins anew (Store.Restart) with each poller, and is lost with the first
// poll that fails. The next poller, there or at another endpoint, knows nothing of
// what was said before: a server that was restarted may use the version that is held
// for other contents (ACK-4).
type restClient struct {
	// Immutable after NewSession.
	remote   *remote
	session  *Session
	store    Store
	report   *report
	up       *REST
	node     *corev3.Node
	nodeSize int
	metadata metadata.MD
}

// NewSession makes a session. It does nothing until Run is called.
func (u *REST) NewSession(cfg SessionConfig) (*Session, error) {
	size := proto.Size(cfg.Node)
	if size > u.cfg.MaxRequestSize/2 {
		return nil, fmt.Errorf("upstream %q: a node of %d bytes leaves too little of a request of %d", u.cfg.Name, size, u.cfg.MaxRequestSize)
	}
	s, err := newSession(cfg, u.cfg.Name, u.cfg.Endpoints[0], u.cfg.Logger, u.roster, u.cfg.Batch)
	if err != nil {
		return nil, err
	}
	// A server that does not serve a type answers the poll, and waits for nothing.
	r := newRemote(s, u.entrance, u.health, u.cfg.common(), refusals{backoff: longBackoff, answer: true})
	r.client = &restClient{
		remote: r, session: s, store: s.store, report: s.report, up: u, node: cfg.Node, nodeSize: size,
		metadata: metadataOf(u.cfg.Metadata, cfg.Metadata),
	}
	s.source = r
	return s, nil
}

// serves implements client: a type may have no path.
func (*restClient) serves(id wire.StreamID) bool {
	_, ok := restjson.Path(id.TypeURL)
	return ok
}

// reach implements client.
func (c *restClient) reach(ctx context.Context, endpoint int) (release func(), ok bool) {
	return func() {}, c.up.reaches(ctx, endpoint)
}

// silence is how long a server may leave unanswered what it was asked before it counts as
// silent, where nothing says when that would be taken for its absence.
const silence = time.Second

// settling implements client. While a server is silent about what it was asked last, no
// clock runs: while a poll hangs nobody can say that what it asked for does not exist
// (RES-7). Such a poll ends with the poll timeout, and an answer settles too. As the
// clocks of all names of the type begin anew then, those that were answered for included,
// a server is not silent before the clock of one that was not has run out.
func (c *restClient) settling(now time.Time) {
	after := cmp.Or(c.up.cfg.AbsentAfter, silence)
	for _, l := range c.remote.lines {
		if k, ok := l.link.(*pollLink); ok {
			c.store.Withhold(l.id, l.id.TypeURL, k.silent(now, after))
		}
	}
}

// rung, next, elapse, tell and end implement client. Polls wait for no client (ACK-7).
func (*restClient) rung()             {}
func (*restClient) next() time.Time   { return time.Time{} }
func (*restClient) elapse(time.Time)  {}
func (*restClient) tell(verdict.Word) {}
func (*restClient) end()              {}
