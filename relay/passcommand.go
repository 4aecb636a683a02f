package relay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/passthrough"
)

// passRules are the rules that a command or a query is about: one for each type. The error says what is wrong.
func (r *Relay) passRules(c *admin.Command) ([]passthrough.Rule, error) {
	if c.For != "" || c.Guard || c.Future || c.Generation != nil || !c.At.IsZero() {
		return nil, admin.Wrong("passthrough has upstream, scope and types only")
	}
	one := passthrough.Rule{Upstream: c.Upstream}
	if c.Upstream != "" {
		streams, known := r.streamed()[c.Upstream]
		switch {
		case !known:
			return nil, admin.Wrong("there is no upstream %q", c.Upstream)
		case !streams:
			return nil, admin.Wrong("the upstream %q is polled or made of files: its clients cannot have streams of their own to it", c.Upstream)
		}
	}
	if c.Scope != nil {
		if one.Scope = *c.Scope; one.Scope == xdstpScope {
			return nil, admin.Wrong("xdstp names have no streams of their own: they pass with the stream that asks for them")
		}
	}
	if len(c.Types) == 0 {
		return []passthrough.Rule{one}, nil
	}
	all := make([]passthrough.Rule, len(c.Types))
	for i, name := range c.Types {
		typeURL, err := keyer.ParseType(name)
		if err != nil {
			return nil, admin.Wrong("%v", err)
		}
		if xds.ServiceOf(typeURL).TypeURL != typeURL {
			return nil, admin.Wrong("%q has no discovery service of its own: without a type aggregated streams are served 1:1, with all types", name)
		}
		all[i] = one
		all[i].TypeURL = typeURL
	}
	return all, nil
}

// passthrough shows which streams are served 1:1, and how many of them the selectors of a query select.
func (r *Relay) passthrough(c *admin.Command) (*admin.Passthrough, error) {
	wanted, err := r.passRules(c)
	if err != nil {
		return nil, err
	}
	now := r.router.now.Load().passed
	v := &admin.Passthrough{Rules: []admin.PassRule{}}
	types := make(map[string]string)
	for _, x := range slices.Concat(xds.Services(), xds.V2Services()) {
		types[x.Name] = x.V3Type()
	}
	selected := func(by []passthrough.Rule, s *downstream.Status, at downstream.Origin) bool {
		return slices.ContainsFunc(by, func(x passthrough.Rule) bool { return x.Selects(at.Upstream, at.Scope, types[s.Service]) })
	}
	through := r.passage.Clients(nil)
	passedBy := func(by ...passthrough.Rule) (streams int) {
		for i := range through {
			if selected(by, &through[i], *through[i].Passed) {
				streams++
			}
		}
		return streams
	}
	v.Passed = passedBy(wanted...)
	for _, x := range now.rules {
		v.Rules = append(v.Rules, admin.PassRule{
			Upstream: x.Upstream, Scope: x.Scope, TypeURL: x.TypeURL, Configured: slices.Contains(now.configured, x), Passed: passedBy(x),
		})
	}
	streams := r.streamed()
	for _, s := range (adminState{r}).cached(nil, nil) {
		if slices.ContainsFunc(origins(&s), func(at downstream.Origin) bool { return streams[at.Upstream] && selected(wanted, &s, at) }) {
			v.Cached++
		}
	}
	return v, nil
}

// streamed says of each upstream whether it has streams: it is not polled, nor made of files.
func (r *Relay) streamed() map[string]bool {
	all := make(map[string]bool)
	for name, p := range r.hub.present() {
		u := r.hub.configOf(p)
		all[name] = u.HasStreams()
	}
	return all
}

// byStreams lists the upstreams that have streams, and those that have none.
func (r *Relay) byStreams() (with, without []string) {
	for name, streams := range r.streamed() {
		if streams {
			with = append(with, name)
		} else {
			without = append(without, name)
		}
	}
	slices.Sort(with)
	slices.Sort(without)
	return with, without
}

// origins lists where a stream's resources come from. Polls have none: they are not served 1:1.
func origins(s *downstream.Status) (all []downstream.Origin) {
	if s.Variant == downstream.REST {
		return nil
	}
	for _, t := range s.Types {
		all = append(all, t.From...)
	}
	return all
}

// Passthrough has the streams served 1:1 that a command selects.
func (o operator) Passthrough(c *admin.Command) (*admin.Done, error) {
	return o.pass(c, func(now *passed, wanted []passthrough.Rule) (next passed, err error) {
		next = *now
		if with, without := o.relay.byStreams(); len(with) == 0 && len(without) > 0 {
			return next, admin.Wrong("no client can be served 1:1: each upstream is polled or made of files (%s), and the cache serves its clients", strings.Join(without, ", "))
		}
		for _, x := range wanted {
			next.rules, next.ordered = withRule(next.rules, x), withRule(next.ordered, x)
		}
		return next, nil
	})
}

// EndPassthrough takes back the rules that a command selects: those of the upstream, the scope and the type that it names.
func (o operator) EndPassthrough(c *admin.Command) (*admin.Done, error) {
	return o.pass(c, func(now *passed, wanted []passthrough.Rule) (next passed, err error) {
		meant := func(x passthrough.Rule) bool {
			return slices.ContainsFunc(wanted, func(w passthrough.Rule) bool { return w.Selects(x.Upstream, x.Scope, x.TypeURL) })
		}
		next = *now
		next.rules = slices.DeleteFunc(slices.Clone(now.rules), meant)
		next.ordered = slices.DeleteFunc(slices.Clone(now.ordered), meant)
		if len(next.rules) == len(now.rules) && len(now.rules) > 0 {
			return next, admin.Wrong("no rule in force is about that: there are %s", passText(now.rules))
		}
		return next, nil
	})
}

// passText shows rules.
func passText(rules []passthrough.Rule) string {
	all := make([]string, len(rules))
	for i, x := range rules {
		words := []string{"upstream " + cmp.Or(x.Upstream, "all"), "scope " + cmp.Or(x.Scope, "all"), "type " + cmp.Or(keyer.ShortName(x.TypeURL), "all")}
		all[i] = strings.Join(words, ", ")
	}
	return strings.Join(all, "; ")
}

// pass changes the rules in force, and has the clients come again that this is about.
func (o operator) pass(c *admin.Command, change func(*passed, []passthrough.Rule) (passed, error)) (*admin.Done, error) {
	r := o.relay
	wanted, err := r.passRules(c)
	if err != nil {
		return nil, err
	}
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if r.ended || r.draining.Load() {
		return nil, ErrEnding
	}
	before := r.router.now.Load()
	next := *before
	if next.passed, err = change(&before.passed, wanted); err != nil {
		return nil, err
	}
	done := &admin.Done{}
	if slices.Equal(next.passed.rules, before.passed.rules) {
		done.Nothing = true
		return done, nil
	}
	if view, err := r.passthrough(c); err == nil {
		done.Streams = view.Cached
		if len(next.passed.rules) < len(before.passed.rules) {
			done.Streams = view.Passed
		}
	}
	done.Warnings = r.passWarnings(&next.passed, &before.passed)
	r.router.now.Store(&next)
	r.server.Reroute(passSpread)
	r.passage.Recheck(passSpread)
	return done, nil
}

// passWarnings says what the operator should know of a change.
func (r *Relay) passWarnings(next, before *passed) (all []string) {
	on := len(next.rules) > len(before.rules)
	if on && len(r.hub.present()) > 1 && slices.ContainsFunc(next.rules, func(x passthrough.Rule) bool { return x.TypeURL == "" }) {
		all = append(all, "an aggregated stream goes to one upstream, that of its first request: a request for what another upstream serves ends it")
	}
	if _, without := r.byStreams(); on && len(without) > 0 && slices.ContainsFunc(next.rules, func(x passthrough.Rule) bool { return x.Upstream == "" }) {
		all = append(all, "clients of "+strings.Join(without, ", ")+" are not served 1:1: it is polled or made of files, and the cache serves them as before")
	}
	if on && r.now.Load().config.Server.RESTListen != "" {
		all = append(all, "polls over REST are not served 1:1: the cache serves them as before")
	}
	if slices.ContainsFunc(before.rules, func(x passthrough.Rule) bool {
		return slices.Contains(next.configured, x) && !slices.Contains(next.rules, x)
	}) {
		all = append(all, "the configuration has the rule (passthrough): a restart of the relay brings it back")
	}
	return all
}
