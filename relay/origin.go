package relay

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/upstream"
	"github.com/xdsrelay/xdsrelay/upstream/filesource"
)

// feed fills one store from its control plane: a gRPC session, or what polls or
// reads files. Its methods may be called from any goroutine.
type feed interface {
	// Run feeds the store until ctx ends, whose error it returns.
	Run(ctx context.Context) error
	// Status is the feed as it is now.
	Status() upstream.Status
	// Tell tells it what became of content with a client (ACK-7). It never blocks.
	Tell(w ack.Outcome)
}

// origin is where a control plane's feeds come from. Its methods may be called from
// any goroutine.
type origin interface {
	// open makes a feed, which does nothing until it is run.
	open(cfg upstream.SessionConfig) (feed, error)
	// Reach returns as soon as the control plane is there; the error is that it is not.
	Reach(ctx context.Context) error
	// Causes says why its endpoints do not answer, of those that do not.
	Causes() []upstream.Cause
	// Close ends the feeds and waits for them.
	Close()
}

// sessions is what package upstream calls a control plane, of whatever kind.
type sessions interface {
	NewSession(cfg upstream.SessionConfig) (*upstream.Session, error)
	Reach(ctx context.Context) error
	Causes() []upstream.Cause
	Close()
}

// originOf is the origin that a control plane of package upstream is.
type originOf struct{ sessions }

func (o originOf) open(cfg upstream.SessionConfig) (feed, error) {
	s, err := o.NewSession(cfg)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newPlane builds the control plane that an upstream of the configuration describes.
// outages are those of the plane before of its name; nil if there was none.
func (r *Relay) newPlane(u config.Upstream, outages *upstream.Outages, obs upstream.Observer) (*plane, error) {
	p := &plane{name: u.Name, config: u, observer: obs}
	if u.Path == "" {
		p.outages = cmp.Or(outages, new(upstream.Outages))
	}
	switch {
	case u.Path != "":
		c := filesConfig(u, r.fullState, obs, r.log)
		c.Panics = r.panics
		f, err := upstream.NewFiles(c)
		if err != nil {
			return nil, err
		}
		// Files say what there is not, so nothing has to be waited for.
		p.upstream, p.files = originOf{f}, f
		p.source = cache.Source{FullState: r.fullState, State: true, PerType: true}
	default:
		c := serverConfig(u, r.fullState, r.log)
		c.Outages, c.Dial = p.outages, r.dial
		if u.TLS != nil {
			c.TLS = new(r.clientTLS(u.TLS, u.TLSRefresh))
		}
		c.Credentials.SPIFFE = r.tokensOf(u.Credentials.SPIFFE)
		up, err := upstream.New(c)
		if err != nil {
			return nil, err
		}
		up.Contain(r.panics)
		p.upstream, p.servers = originOf{up}, up
		p.source = cache.Source{FullState: r.fullState, State: c.APIType.State(), PerType: c.APIType.PerType()}
		if c.APIType != upstream.REST {
			p.source.Shared = sharedTypes()
		}
		setTimes(&p.source, &u)
	}
	p.source.Upstream = u.Name
	p.source.Guard, p.source.Unrecorded = guardOf(&u, r.secrets), r.secrets.Has
	p.source.References = true // for the prefetcher
	return p, nil
}

// sharedTypes are those of which the wildcard and names share a stream: an Envoy opens
// with an empty request for virtual hosts, which means none of them, and then names what
// it needs (SUB-14).
func sharedTypes() map[string]bool {
	return map[string]bool{xds.VirtualHostType: true}
}

// setTimes gives a source the times of its upstream.
func setTimes(s *cache.Source, u *config.Upstream) {
	s.Quiet, s.ResumeQuiet, s.Absent = u.Settle.Std(), u.ResumeSettle.Std(), u.AbsentAfter.Std()
}

// guardOf is the guard of an upstream's stores (SUR-3). A secret that is revoked must go at once.
func guardOf(u *config.Upstream, secrets *payload.Secrets) hold.Guard {
	excepted := u.Guard.Passes()
	return hold.Guard{
		Share: u.Guard.Removed.Part(), AtLeast: u.Guard.AtLeast, Hold: u.Guard.Hold.Std(), Small: u.Guard.SmallHold.Std(), WentBack: u.Guard.WentBack == config.ReportBack,
		BehindRelays: u.Guard.BehindRelays,
		Passes:       func(typeURL string) bool { return secrets.Has(typeURL) || excepted(typeURL) },
	}
}

func filesConfig(u config.Upstream, fullState map[string]bool, obs upstream.Observer, log *slog.Logger) upstream.FilesConfig {
	return upstream.FilesConfig{
		Name: u.Name, Path: u.Path, FullState: fullState, MaxSize: int64(u.MaxReceiveSize),
		// With a shorter interval the wait for quiet is no longer than the interval either.
		Poll: u.Poll.Interval.Std(), Quiet: min(u.Poll.Interval.Std(), filesource.DefaultQuiet),
		Batch: atOnce(u.Batch), Observer: obs, Logger: log,
	}
}

func serverConfig(u config.Upstream, fullState map[string]bool, log *slog.Logger) upstream.Config {
	return upstream.Config{
		Name:           u.Name,
		APIType:        upstream.APIType(u.APIType), // they have the same words
		Endpoints:      u.Endpoints,
		FullState:      fullState,
		Credentials:    upstream.Credentials{Metadata: u.Metadata.Wire(), TokenFile: u.Credentials.TokenFile},
		MaxReceiveSize: int(u.MaxReceiveSize),
		MaxRequestSize: int(u.MaxRequestSize),
		ConnectTimeout: u.ConnectTimeout.Std(),
		Keepalive: upstream.Keepalive{
			Time: orNever(u.Keepalive.Time), Timeout: u.Keepalive.Timeout.Std(), Response: silenceCounts(u.ResponseTimeout),
		},
		Backoff:          upstream.Backoff{Base: u.Backoff.Base.Std(), Max: u.Backoff.Max.Std()},
		FailbackInterval: u.Failback.Std(),
		TrustLists:       !u.CheckLists,
		Wildcard:         upstream.WildcardForm(u.Wildcard), // they have the same words
		Batch:            atOnce(u.Batch),
		Nack:             nackOf(u),
		Poll:             upstream.Poll{Interval: u.Poll.Interval.Std(), Timeout: u.Poll.Timeout.Std(), AbsentAfter: u.AbsentAfter.Std()},
		Logger:           log,
	}
}

// nackOf says when a control plane is told what its clients reject.
func nackOf(u config.Upstream) upstream.Nack {
	n := upstream.Nack{Share: u.NackShare.Part()}
	n.Wait, n.RelayWait = u.NackWait.Std()
	return n
}

// atOnce is a time for which something is gathered, where zero is no time and package
// upstream takes it for its default.
func atOnce(d config.Duration) time.Duration { return max(d.Std(), time.Nanosecond) }

// silenceCounts is a time after which silence counts, where the configuration says zero for
// never and package upstream takes it for its default.
func silenceCounts(d config.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d.Std()
}

// orNever is a time after which something happens, where the configuration says
// zero for never and the packages that get it take zero for a default of their own.
// gRPC's word for never is the longest time there is.
func orNever(d config.Duration) time.Duration {
	if d == 0 {
		return math.MaxInt64
	}
	return d.Std()
}
