package upstream

import (
	"context"
	"fmt"
	"log/slog"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
)

// Upstream is one control plane of servers: its endpoints, and what its sessions share. Its
// methods may be called from any goroutine.
type Upstream struct {
	// Immutable after New.
	cfg       Config
	tls       *tlsfiles.Client // nil in plain text
	transport transport

	*roster
	*health

	entrance *entrance
}

// transport has the connections to the endpoints of an upstream, for streams or for polls.
// Any goroutine may call its methods.
type transport interface {
	// client makes the client of a session, and says what a refusal of a type means.
	client(r *remote, cfg SessionConfig) (client, refusals)
	// reach reports whether an endpoint can be reached before ctx or the connect timeout
	// ends, and holds the connection until release is called.
	reach(ctx context.Context, endpoint int) (release func(), ok bool)
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
	u := &Upstream{
		cfg: cfg, roster: newRoster(), health: newHealth(len(cfg.Endpoints)),
		entrance: newEntrance(cfg.Outages, cfg.Backoff.Base, cfg.Backoff.Max),
	}
	if cfg.TLS != nil {
		files := *cfg.TLS
		if files.Report == nil {
			files.Report = func(err error) { reportFiles(cfg.Logger, err) }
		}
		if u.tls, err = tlsfiles.NewClient(files); err != nil {
			return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
		}
	}
	if cfg.APIType == REST {
		u.transport, err = newWeb(&u.cfg, u.tls)
	} else {
		u.transport, err = newPool(&u.cfg, u.tls)
	}
	if err != nil {
		if u.tls != nil {
			u.tls.Close()
		}
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	return u, nil
}

// reportFiles tells the operator what became of changed TLS files.
func reportFiles(log *slog.Logger, err error) {
	if err != nil {
		log.Error("TLS files cannot be used, keeping the last good ones", "error", err)
		return
	}
	log.Info("TLS files taken up")
}

// Close ends the sessions, whose Run returns ErrClosed, waits for them and closes the
// connections.
func (u *Upstream) Close() {
	u.close()
	u.entrance.shut()
	u.transport.close()
	if u.tls != nil {
		u.tls.Close()
	}
}

// NewSession makes a session. It does nothing until Run is called.
func (u *Upstream) NewSession(cfg SessionConfig) (*Session, error) {
	if size := nodeSize(cfg); size > u.cfg.MaxRequestSize/2 {
		return nil, fmt.Errorf("upstream %q: a node of %d bytes leaves too little of a request of %d", u.cfg.Name, size, u.cfg.MaxRequestSize)
	}
	s, err := newSession(cfg, u.cfg.Name, u.cfg.Endpoints[0], u.cfg.Logger, u.roster, u.cfg.Batch)
	if err != nil {
		return nil, err
	}
	r := &remote{session: s, store: s.store, report: s.report, up: u, failback: newFailback(u, s.report)}
	r.client, r.refusals = u.transport.client(r, cfg)
	s.source = r
	return s, nil
}

// nodeSize is what a session's node takes as a field of a request.
func nodeSize(cfg SessionConfig) int { return 1 + protowire.SizeBytes(proto.Size(cfg.Node)) }

// Reach connects to the endpoints in order of priority until one answers, and closes the
// connection again if no session uses it. The error is that none answered before ctx ended
// or its connect timeout ran out.
func (u *Upstream) Reach(ctx context.Context) error {
	if err := u.enter(); err != nil {
		return err
	}
	defer u.leave()
	for i := range u.cfg.Endpoints {
		if release, ok := u.transport.reach(ctx, i); ok {
			release()
			return nil
		}
	}
	return fmt.Errorf("upstream %q: no endpoint answers", u.cfg.Name)
}
