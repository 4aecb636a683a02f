package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"
)

// modelCollections are what the modelled control plane has errors of as a whole.
var modelCollections = []string{
	cache.Wildcard, "xdstp://x/envoy.config.cluster.v3.Cluster/g/*", "xdstp://x/envoy.config.cluster.v3.Cluster/h/*",
	"xdstp://x/envoy.config.cluster.v3.Cluster/h/*?p=q&r=s",
}

// respond puts a response with errors on its way: in the state of the world with all that
// there is, if the type is complete, save what the errors are for.
func (m *modelServer) respond(st *modelStream, removed []string, errs ...wire.ResourceError) {
	if !m.source.state {
		st.queue = append(st.queue, &wire.Response{TypeURL: clusterType, Removed: removed, Errors: errs})
		return
	}
	r := m.world(st, nil)
	r.Resources = slices.DeleteFunc(r.Resources, func(x *wire.Resource) bool {
		return slices.ContainsFunc(errs, func(e wire.ResourceError) bool {
			_, named := st.subs[keyOf(x.Name)]
			whole := e.Name == cache.Wildcard || keyer.GlobOf(keyOf(x.Name)) == e.Name
			return e.Name == x.Name || (whole && !named)
		})
	})
	r.Errors = errs
	st.say(r)
}

// fail has the control plane report an error of a name, which takes the resource away or
// leaves it. It says so once.
func (m *modelServer) fail(name string, gone bool) {
	old := m.exists[name]
	if !gone && (old.ttl > 0 || old.once) {
		return // it would run out, or is to be asked for
	}
	e := wire.ResourceError{Name: name, Code: codes.Unavailable, Message: fmt.Sprint(m.version)}
	if gone {
		delete(m.exists, name)
		e.Code = codes.NotFound
	}
	m.version++
	m.states++
	for _, st := range m.streams {
		if st == nil || !covered(st.subs, name, old) {
			continue
		}
		if gone {
			delete(st.known, name)
		}
		st.note(name, !gone)
		m.respond(st, nil, e)
	}
}

// note remembers for which names a stream was told an error that leaves them: until they
// are sent, their lack is not their removal (ERR-1).
func (st *modelStream) note(name string, failed bool) {
	if st.failed == nil {
		st.failed = map[string]bool{}
	}
	st.failed[name] = failed
}

// failWhole has it report one of a collection, which leaves its members.
func (m *modelServer) failWhole(key string) {
	m.version++
	m.states++
	for _, st := range m.streams {
		if st != nil && st.subs[key] != "" {
			m.respond(st, nil, wire.ResourceError{Name: key, Code: codes.Unavailable, Message: fmt.Sprint(m.version)})
		}
	}
}

// empty has it say by an error that a glob does not exist. Names in it that are
// subscribed to are answered by themselves.
func (m *modelServer) empty(glob string) {
	m.version++
	m.states++
	var members []string
	for n := range m.exists {
		if keyer.GlobOf(n) == glob {
			members = append(members, n)
		}
	}
	slices.Sort(members)
	var said [][]wire.ResourceError // by stream; once the members are gone
	for _, st := range m.streams {
		var errs []wire.ResourceError
		if st == nil {
			said = append(said, nil)
			continue
		}
		if st.subs[glob] != "" {
			errs = append(errs, wire.ResourceError{Name: glob, Code: codes.NotFound, Message: fmt.Sprint(m.version)})
		}
		for _, n := range members {
			delete(st.known, n)
			if st.subs[n] != "" {
				errs = append(errs, wire.ResourceError{Name: n, Code: codes.PermissionDenied, Message: fmt.Sprint(m.version)})
			}
		}
		said = append(said, errs)
	}
	for _, n := range members {
		delete(m.exists, n)
	}
	for i, st := range m.streams {
		if len(said[i]) > 0 {
			m.respond(st, nil, said[i]...)
		}
	}
}

// heal has it answer the collections anew that it had errors of, and the names that do not exist:
// an error that leaves a name open is not its last word.
func (m *modelServer) heal() {
	m.states++
	for _, st := range m.streams {
		if st == nil {
			continue
		}
		all := map[string]bool{}
		for _, key := range modelCollections {
			if st.subs[key] != "" {
				all[key] = true
			}
		}
		if m.source.state {
			if len(all) > 0 {
				r := m.world(st, all)
				for _, key := range modelCollections[1:] { // an empty glob has no other word
					if all[key] && !slices.ContainsFunc(r.Resources, func(x *wire.Resource) bool { return keyer.GlobOf(keyOf(x.Name)) == key }) {
						r.Errors = append(r.Errors, wire.ResourceError{Name: key, Code: codes.NotFound})
					}
				}
				st.say(r)
			}
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(all)) {
			r := &wire.Response{TypeURL: clusterType}
			for _, n := range slices.Sorted(maps.Keys(m.exists)) {
				if c := m.exists[n]; covered(map[string]string{key: key}, n, c) {
					r.Resources = append(r.Resources, resourceOf(n, c))
					st.known[n] = c.version
				}
			}
			if len(r.Resources) == 0 && key != cache.Wildcard {
				r.Removed = append(r.Removed, key)
			}
			st.queue = append(st.queue, r)
		}
		for _, name := range slices.Sorted(maps.Keys(st.failed)) {
			if _, exists := m.exists[name]; st.failed[name] && !exists && st.subs[keyOf(name)] != "" {
				st.queue = append(st.queue, &wire.Response{TypeURL: clusterType, Removed: []string{name}})
			}
		}
	}
}

// takeErrors applies the errors of a response, after the rest of it.
func (c *modelClient) takeErrors(t rapid.TB, errs []*discovery.ResourceError) {
	t.Helper()
	for _, e := range errs {
		name := e.ResourceName.GetName()
		if name != cache.Wildcard && !c.asked(name) && !c.once[name] {
			t.Fatalf("ERR-1: told of an error of %q, subscribed: %v", name, c.subs)
		}
		if !c.covers(keyOf(name)) && !c.once[name] && !c.subs[name] {
			t.Fatalf("ERR-1: told of an error of %q without being asked, subscribed: %v", name, c.subs)
		}
		if c.errors == nil {
			c.errors = map[string]int{}
		}
		c.errors[keyOf(name)+"|"+e.ErrorDetail.Message]++
		code := codes.Code(e.ErrorDetail.Code)
		c.silent[keyOf(name)] = strings.Contains(e.ErrorDetail.Message, "has not sent it within")
		if (code == codes.NotFound || code == codes.PermissionDenied) && c.form.State && !c.full {
			delete(c.holds, keyOf(name))
			delete(c.clocks, keyOf(name))
		}
	}
}

// failing has everything fail in turn, once all is quiet, and holds every client to being
// told of what it covers, as often as it subscribes to it.
func failing(t rapid.TB, server *modelServer) {
	t.Helper()
	for _, c := range server.clients {
		c.collect(t, 1<<20)
	}
	for _, name := range slices.Concat(modelNames, modelCollections) {
		collection := slices.Contains(modelCollections, name)
		x, exists := server.exists[name]
		switch {
		case collection:
			server.failWhole(name)
		case exists && x.ttl == 0 && !x.once:
			server.fail(name, false)
		default:
			continue
		}
		server.quiet()
		message := fmt.Sprint(server.version)
		if !collection {
			message = fmt.Sprint(server.version - 1)
		}
		for i, c := range server.clients {
			if c.waitsForGlob() || c.client.find(clusterType).waits() {
				continue
			}
			c.collect(t, 1<<20)
			want := 0
			for s := range c.subs {
				if keyOf(s) == name {
					want++
				}
			}
			if want == 0 && !collection && covered(c.keys(), name, x) {
				want = 1
			}
			got := c.errors[name+"|"+message]
			if (got == 0) != (want == 0) {
				t.Fatalf("ERR-1: client %d (%v, %+v) was told of the error of %q %d times, wants it %d times",
					i, slices.Sorted(maps.Keys(c.subs)), c.form, name, got, want)
			}
			c.collect(t, 1<<20)
			if again := c.errors[name+"|"+message]; again != got {
				t.Fatalf("ERR-1: client %d was told of %q again", i, name)
			}
		}
	}
	server.heal()
	server.quiet()
	server.pass(0)
}

// waits reports whether nothing is sent for now.
func (w *typeSub) waits() bool { return w != nil && w.place.schedule().incomplete(w) }
