package upstream

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// Upstream is one control plane of servers: its endpoints, and the state that its sessions share. Its
// methods may be called from any goroutine.
type Upstream struct {
	// Immutable after New.
	cfg       Config
	keys      keyring
	transport transport

	*roster

	panics    *logs.Panics // nil: none is caught
	causes    *causes
	replicas  *replicas
	entrance  *entrance
	answered  *lru.Cache[string, struct{}] // types, of any scope
	lists     *lists
	wildcards wildcards

	reuses atomic.Bool // the control plane uses versions for several contents: none are presented
}

// transport has the connections to the endpoints of an upstream, for streams or for polls.
// Any goroutine may call its methods.
type transport interface {
	// client makes the client of a session, and says how a refusal of a type is treated.
	client(r *remote, cfg SessionConfig) (client, refusals)
	// reach connects to a replica before ctx or the connect timeout ends, and holds the
	// connection until release is called. The error is that it cannot be reached.
	reach(ctx context.Context, x *replica) (release func(), err error)
	// close closes the connections. No session runs any more.
	close()
}

// New checks cfg and reads its TLS files. It connects to nothing: sessions do.
// Close must be called.
func New(cfg Config) (*Upstream, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	answered, _ := lru.New[string, struct{}](maxAnswered) // it fails for other sizes only
	u := &Upstream{
		cfg: cfg, roster: newRoster(), causes: new(causes), answered: answered, lists: newLists(), wildcards: wildcards{form: cfg.Wildcard},
		entrance: newEntrance(cfg.Outages, cfg.Backoff.Base, cfg.Backoff.Max),
	}
	if u.keys, err = openKeyring(&cfg); err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	if cfg.APIType == REST {
		u.replicas = newReplicas(&u.cfg, nil)
		u.transport, err = newWeb(&u.cfg, u.keys, u.replicas)
	} else {
		u.replicas = newReplicas(&u.cfg, proxied)
		u.transport, err = newPool(&u.cfg, u.keys)
	}
	if err != nil {
		u.keys.close()
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	return u, nil
}

// Contain has panics caught in the code that the sessions share (SUR-6). It is to be called before the first
// session is made.
func (u *Upstream) Contain(p *logs.Panics) {
	u.panics, u.entrance.panics, u.replicas.panics = p, p, p
}

// Close ends the sessions, whose Run returns ErrClosed, waits for them and closes the
// connections.
func (u *Upstream) Close() {
	u.close()
	u.replicas.close()
	u.entrance.shut()
	u.transport.close()
	u.keys.close()
}

// NewSession makes a session. It does nothing until Run is called.
func (u *Upstream) NewSession(cfg SessionConfig) (*Session, error) {
	if cfg.NodeSize == 0 {
		cfg.NodeSize = proto.Size(cfg.Node)
	}
	if size := nodeSize(cfg); size > u.cfg.MaxRequestSize/2 {
		return nil, fmt.Errorf("upstream %q: a node of %d bytes leaves too little of a request of %d", u.cfg.Name, size, u.cfg.MaxRequestSize)
	}
	s, err := newSession(cfg, u.cfg.Name, u.cfg.Endpoints[0][0], u.cfg.Logger, u.roster, u.cfg.Batch)
	if err != nil {
		return nil, err
	}
	r := &remote{
		session: s, store: s.store, report: s.report, up: u, failback: newFailback(u, s, cmp.Or(cfg.Key, cfg.Scope)),
	}
	r.client, r.refusals = u.transport.client(r, cfg)
	s.source = r
	return s, nil
}

// Replicas lists the servers: those of the endpoints, or of their names as they were looked up
// last. Names are not looked up before the first session runs.
func (u *Upstream) Replicas() []Replica { return u.replicas.list() }

// nodeSize is the bytes that a session's node takes as a field of a request.
func nodeSize(cfg SessionConfig) int { return 1 + protowire.SizeBytes(cfg.NodeSize) }

// Causes says of each replica that does not answer why it did not when it was last tried.
func (u *Upstream) Causes() []Cause { return u.causes.of(u.replicas.names()) }

// failed records why a replica does not answer. Causes of replicas that have left make room.
func (u *Upstream) failed(c Cause) {
	u.causes.of(u.replicas.names())
	u.causes.failed(c)
}

// heard notes an answer of a replica, to whichever session.
func (u *Upstream) heard(x *replica, at time.Time) {
	contacts := &u.entrance.outages.contacts
	contacts.hear(at)
	contacts.owe(x, time.Time{}, false)
	u.causes.answered(x.name)
	if x.answers.hear(at) {
		u.replicas.found(x, true)
		u.cfg.Logger.Info("endpoint answers again", "endpoint", x.name)
	}
	u.entrance.answer(x, at)
}

// silent notes that a replica does not answer, and has all sessions leave it.
func (u *Upstream) silent(x *replica, since time.Time, obs Observer) {
	u.entrance.outages.contacts.owe(x, time.Time{}, false)
	u.replicas.found(x, false)
	u.failed(causeAt(x.name, errSilent, false))
	obs.EndpointSilent(x.name)
	if x.answers.fallSilent(time.Now()) {
		u.cfg.Logger.Warn("endpoint takes connections and does not answer", "endpoint", x.name, "since", since)
	}
	u.replicas.tell()
}

// Reach connects to the replicas of each priority in turn, to those of one priority at once,
// until one answers. It closes connections again that no session uses. The error is ctx's, or an [*UnansweredError]:
// none answered before its connect timeout ran out.
func (u *Upstream) Reach(ctx context.Context) error {
	if err := u.enter(); err != nil {
		return err
	}
	defer u.leave()
	unanswered := &UnansweredError{Upstream: u.cfg.Name}
	for _, equal := range u.replicas.byPriority(ctx, "") {
		causes := u.reachAny(ctx, equal)
		switch {
		case causes == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		for _, c := range causes {
			u.failed(c)
			if len(unanswered.Causes) < maxCauses {
				unanswered.Causes = append(unanswered.Causes, c)
			}
		}
	}
	return unanswered
}

// note records whether a replica could be reached, and why it could not.
func (u *Upstream) note(x *replica, err error) {
	if err == nil {
		u.causes.connected(x.name)
	} else {
		u.failed(causeAt(x.name, err, false))
	}
	u.replicas.found(x, err == nil)
}

// reachAny returns nil if one of several replicas can be reached, else the cause of each.
func (u *Upstream) reachAny(ctx context.Context, equal []*replica) []Cause {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reached atomic.Bool
	var wg sync.WaitGroup
	causes := make([]Cause, len(equal))
	for i, x := range equal {
		wg.Go(func() {
			defer u.panics.Catch(logs.PartUpstream, func(e *logs.PanicError) { causes[i] = causeAt(x.name, e, false) })
			release, err := u.transport.reach(ctx, x)
			if err != nil {
				causes[i] = causeAt(x.name, err, false)
				return
			}
			release()
			u.causes.connected(x.name)
			reached.Store(true)
			cancel() // the others are not waited for
		})
	}
	wg.Wait()
	if reached.Load() {
		return nil
	}
	return causes
}
