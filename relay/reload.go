package relay

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/audit"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// ErrEnding says that a relay that ends takes no configuration any more.
var ErrEnding = errors.New("the relay is stopping")

// Reload puts another valid configuration in force while the relay runs, or before. What
// may fail is done first: if there is an error, which names what of the configuration
// cannot be used, nothing has changed. Upstreams of which nothing changed keep their
// streams. Keys that need a restart (config.NeedsRestart) stay as they are, which is
// logged. It may be called from any goroutine; reloads are carried out one at a time.
//
// A configuration that would refuse more than a tenth of the connected clients is not taken: the error is a [*RefusesError].
func (r *Relay) Reload(cfg *config.Config) (err error) {
	defer r.panics.Catch(logs.PartAdmin, func(e *logs.PanicError) { err = e })
	return r.reload(cfg, false)
}

// ReloadAnyway is Reload, however many clients the configuration refuses.
func (r *Relay) ReloadAnyway(cfg *config.Config) (err error) {
	defer r.panics.Catch(logs.PartAdmin, func(e *logs.PanicError) { err = e })
	return r.reload(cfg, true)
}

// Contain calls f for the program that has the relay. If f panics, that is counted and logged like a panic of
// the relay, and returned as an error.
func (r *Relay) Contain(f func()) error { return r.panics.Do(logs.PartAdmin, f) }

func (r *Relay) reload(cfg *config.Config, anyway bool) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if r.ended || r.draining.Load() {
		return ErrEnding
	}
	running := r.now.Load()
	next, changed, waiting := config.Live(running.config, cfg)
	if len(changed) == 0 && slices.Equal(waiting, running.waiting) {
		r.noteReloaded(running, metrics.ReloadUnchanged)
		r.audit.Info("the configuration did not change")
		return nil
	}
	force, err := newInForce(next, waiting)
	if err == nil {
		err = r.carryOut(next, !anyway && mayRefuse(changed))
	}
	if err != nil {
		r.noteFailed(err)
		return err
	}
	r.now.Store(force)
	r.noteReloaded(force, metrics.ReloadSuccess)
	lines := linesOf(changed)
	r.trail.Command(&audit.Event{What: "reload", Decision: audit.Allow, Reason: strings.Join(lines, "; ")})
	r.audit.Info("the new configuration is in force", "changed", lines, "hash", force.hash)
	for _, c := range waiting {
		r.audit.Warn("a changed key needs a restart", "key", c.Path, "running", c.Old, "wanted", c.New)
	}
	r.events.Add(admin.Reloaded(lines, linesOf(waiting), force.hash))
	return nil
}

// linesOf shows changes.
func linesOf(all []config.Change) []string {
	lines := make([]string, len(all))
	for i, c := range all {
		lines[i] = c.String()
	}
	return lines
}

// ReloadFailed tells the relay that there is a configuration which could not be read, or
// is not valid, so that metrics and the admin port say so. Nothing else changes.
func (r *Relay) ReloadFailed(err error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	r.noteFailed(err)
}

func (r *Relay) noteFailed(err error) {
	r.trail.Command(&audit.Event{What: "reload", Decision: audit.Deny, Reason: err.Error()})
	r.failed.Store(&failure{err, time.Now()})
	r.events.Add(admin.Event{At: time.Now(), Kind: string(admin.ReloadFailed), Text: strings.TrimSpace(err.Error())})
	r.metrics.Reloads().Failed()
}

func (r *Relay) noteReloaded(now *inForce, result metrics.ReloadResult) {
	r.failed.Store(nil)
	r.metrics.Reloads().Succeeded(result, now.hash, time.Now(), len(now.waiting))
}

// carryOut changes the relay from the configuration in force to another one. guarded: which must not refuse many clients.
func (r *Relay) carryOut(cfg *config.Config, guarded bool) error {
	secure, o, err := r.prepared(cfg)
	if err != nil {
		return err
	}
	var obsolete []origin
	if guarded {
		err = refuses(r.router.refused(o.plan))
	}
	if err == nil {
		obsolete, err = r.hub.carryOut(o)
	}
	if err != nil {
		o.discard()
		secure.discard()
		return err
	}
	r.secrets.Set(cfg.SecretTypeURLs())
	r.ports.adopt(secure, cfg.Server)
	r.cache.SetLimits(cacheLimits(cfg.Cache))
	r.hub.snapshots.configure(cfg.Cache.SnapshotEvery.Std(), int64(cfg.Cache.MaxBytes))
	r.metrics.LimitResponses(int(cfg.Server.MaxMessageSize))
	r.server.SetLimits(limitsOf(cfg, r.memory.Limit()))
	r.admission.SetOff(cfg.Limits.Admission == config.AdmissionOff)
	r.admission.SetWait(cfg.Limits.JoinWait.Std())
	r.connections.Set(connectionsOf(&cfg.Limits, openFiles()))
	r.server.SetIdentifier(identifierOf(cfg.Node))
	r.lines.Set(cfg.Log.PerMinute)
	r.trail.SetPerMinute(cfg.Log.PerMinute)
	if r.level != nil {
		r.level.Set(cfg.Log.Level.Slog())
	}
	for _, p := range o.added {
		r.seek(p)
	}
	r.server.Reroute(cfg.Server.Drain.Std())
	r.reports.Recheck(cfg.Server.Drain.Std())
	r.passage.Recheck(cfg.Server.Drain.Std())
	r.ahead.renew(cfg.Resolve.Prefetch)
	for _, from := range obsolete {
		r.hub.running.Go(from.Close) // an attempt to reach the control plane may hold it up
	}
	return nil
}

// prepared is what a configuration changes. The error names what cannot be used; nothing is left of what was prepared then.
func (r *Relay) prepared(cfg *config.Config) (*renewed, *overhaul, error) {
	secure, err := r.renew(cfg.Server)
	if err != nil {
		return nil, nil, err
	}
	o, err := r.overhaul(cfg)
	if err != nil {
		secure.discard()
		return nil, nil, err
	}
	return secure, o, nil
}

// overhaul prepares what a configuration does to the hub. The error names what cannot be
// used; nothing is left of what was prepared then.
func (r *Relay) overhaul(cfg *config.Config) (_ *overhaul, err error) {
	now := r.hub.present()
	o := &overhaul{
		router: r.router, planes: make(map[string]*plane), configs: make(map[string]config.Upstream),
		changed: make(map[*plane]*plane), linger: cfg.Aggregation.Linger.Std(), scopes: cfg.Limits.Scopes, share: cfg.Limits.Share.Part(), resolve: settingsOf(cfg.Resolve),
	}
	defer func() {
		if err != nil {
			o.discard()
		}
	}()
	for _, u := range cfg.Upstreams {
		if err := r.prepare(o, now[u.Name], u); err != nil {
			return nil, err
		}
	}
	if o.plan, err = newPlan(cfg); err != nil {
		return nil, err
	}
	o.plan.planes = o.planes
	if before := r.router.now.Load(); before != nil {
		o.plan.succeed(before, time.Now(), cfg.Server.Drain.Std())
		o.plan.passed = o.plan.passed.after(&before.passed)
	}
	return o, nil
}

// prepare finds out what becomes of the plane of an upstream's name, nil if there is none.
func (r *Relay) prepare(o *overhaul, p *plane, u config.Upstream) error {
	o.configs[u.Name] = u
	if p != nil && feedsLike(p.config, u) {
		o.planes[u.Name] = p
		return nil
	}
	var outages *upstream.Outages
	if p != nil && p.succeeds(&u) {
		outages = p.outages
	}
	next, err := r.newPlane(u, outages, r.metrics.Upstream(u.Name, int(u.MaxReceiveSize)))
	forget := sync.OnceFunc(func() { r.metrics.Forget(u.Name) })
	if err != nil {
		forget()
		return err
	}
	next.source.Peers = r.hub.help != nil && next.servers != nil
	next.forget, next.loads = forget, r.metrics.LoadReports(u.Name)
	next.gate = loadreport.NewGate(next.loads)
	if p != nil && p.fits(next) {
		o.planes[u.Name], o.changed[p] = p, next
		return nil
	}
	o.planes[u.Name] = next
	o.added = append(o.added, next)
	return nil
}
