package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// upstreams checks each upstream and how they share the names among them.
func (k *checker) upstreams(all []Upstream, rules []Rule) {
	if len(all) == 0 {
		k.fail("upstreams", "expected at least one")
		return
	}
	for i := range all {
		k.upstream(fmt.Sprintf("upstreams[%d]", i), &all[i])
	}
	k.names(all)
	k.routing(all, rules)
}

func (k *checker) upstream(path string, u *Upstream) {
	if u.Path == "" {
		k.endpoints(path+".endpoints", u.Endpoints)
	} else {
		k.files(path, u)
	}
	if t := u.TLS; t != nil {
		k.clientTLS(path+".tls", t)
	}
	k.headers(path, u)
	k.between(path+".tls_refresh", u.TLSRefresh, Duration(time.Second), maxWait)
	k.message(path+".max_receive_size", u.MaxReceiveSize)
	k.message(path+".max_request_size", u.MaxRequestSize)
	k.between(path+".connect_timeout", u.ConnectTimeout, Duration(100*time.Millisecond), maxWait)
	k.keepalive(path+".keepalive", u.Keepalive)
	if u.ResponseTimeout != 0 { // silence never counts
		k.between(path+".response_timeout", u.ResponseTimeout, Duration(time.Second), maxWait)
	}
	// Without a wait an upstream that refuses would be asked in a tight loop.
	k.between(path+".backoff.base", u.Backoff.Base, Duration(10*time.Millisecond), maxWait)
	if u.Backoff.Max < u.Backoff.Base || u.Backoff.Max > maxWait {
		k.fail(path+".backoff.max", "expected backoff.base, %s, to %s, got %s", u.Backoff.Base, maxWait, u.Backoff.Max)
	}
	k.between(path+".failback", u.Failback, Duration(time.Second), maxWait)
	k.between(path+".batch", u.Batch, 0, Duration(10*time.Second))
	if u.NackWait != AutoNackWait {
		k.between(path+".nack_wait", Duration(u.NackWait), 0, Duration(time.Minute))
	}
	k.guard(path+".guard", &u.Guard)
	k.between(path+".settle", u.Settle, Duration(100*time.Millisecond), maxWait)
	if u.ResumeSettle < u.Settle || u.ResumeSettle > maxWait {
		k.fail(path+".resume_settle", "expected settle, %s, to %s, got %s", u.Settle, maxWait, u.ResumeSettle)
	}
	k.between(path+".absent_after", u.AbsentAfter, Duration(time.Second), maxWait)
	k.between(path+".poll.interval", u.Poll.Interval, Duration(100*time.Millisecond), maxWait)
	k.between(path+".poll.timeout", u.Poll.Timeout, Duration(time.Second), maxWait)
}

// maxAtLeast bounds guard.at_least: a guard that no table reaches is better turned off.
const maxAtLeast = 1_000_000

func (k *checker) guard(path string, g *Guard) {
	if g.AtLeast < 1 || g.AtLeast > maxAtLeast {
		k.fail(path+".at_least", "expected 1 to %d, got %d", maxAtLeast, g.AtLeast)
	}
	k.between(path+".hold", g.Hold, Duration(time.Second), Duration(24*time.Hour))
	if g.SmallHold != 0 {
		k.between(path+".small_hold", g.SmallHold, Duration(time.Second), Duration(24*time.Hour))
	}
	for i, t := range g.Except {
		k.typeURL(fmt.Sprintf("%s.except[%d]", path, i), t)
	}
}

// files checks that nothing about servers was said of an upstream that reads
// files: it would be without effect, and was meant to have one.
func (k *checker) files(path string, u *Upstream) {
	const message = "expected either path or %s: files have no servers"
	if len(u.Endpoints) > 0 {
		k.fail(path+".endpoints", message, "endpoints")
	}
	if u.TLS != nil {
		k.fail(path+".tls", message, "tls")
	}
	// The default does not tell whether somebody wrote it.
	if _, given := k.from[path+".api_type"]; given || u.APIType != AggregatedDeltaGRPC && u.APIType != "" {
		k.fail(path+".api_type", message, "api_type")
	}
}

// names checks that every upstream can be told from the others.
func (k *checker) names(all []Upstream) {
	first := make(map[string]int)
	for i, u := range all {
		at := fmt.Sprintf("upstreams[%d].name", i)
		if u.Name == "" {
			k.fail(at, "missing or empty")
			continue
		}
		// It is a metric's label and part of addresses of the admin port.
		if strings.Trim(u.Name, wordCharacters+".") != "" {
			k.fail(at, "expected letters, digits and any of -_. only, got %q", u.Name)
		}
		if j, taken := first[u.Name]; taken {
			k.fail(at, "%q is already the name of upstreams[%d]", u.Name, j)
			continue
		}
		first[u.Name] = i
	}
}

// routing checks that every name has at most one upstream (LOC-3) and every
// upstream some names, or a rule that sends them to it.
func (k *checker) routing(all []Upstream, rules []Rule) {
	fallback := -1
	claimed := make(map[string]int)
	for i, u := range all {
		if u.Default {
			if fallback >= 0 {
				k.fail(fmt.Sprintf("upstreams[%d].default", i), "upstreams[%d] is already the default upstream", fallback)
			} else {
				fallback = i
			}
		}
		for j, authority := range u.Authorities {
			at := fmt.Sprintf("upstreams[%d].authorities[%d]", i, j)
			canonical := k.authority(at, authority)
			if owner, taken := claimed[canonical]; taken {
				k.fail(at, "%q is already claimed by upstreams[%d]", authority, owner)
				continue
			}
			claimed[canonical] = i
		}
		byRule := slices.ContainsFunc(rules, func(r Rule) bool { return r.Upstream == u.Name })
		if !u.Default && len(u.Authorities) == 0 && !byRule {
			k.fail(fmt.Sprintf("upstreams[%d]", i), "the relay would never ask this upstream: expected default: true, authorities, or an aggregation rule that names it")
		}
	}
}
