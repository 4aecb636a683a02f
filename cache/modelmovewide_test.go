package cache

import (
	"maps"
	"slices"
	"strings"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Globs, errors, ttls, what is not to be cached and clients that come back, for the model
// of moves.

// authority is where xdstp names are looked up in a plan.
const authority = "xdstp:"

// Contents that are not kept for good: with a ttl that never runs out here, and with
// do_not_cache.
const longLived, relayedOnly = "t~1000h", "o"

// changing are the names whose resources come and go.
var changing = []string{"a", "b", "c", "/1", "/2"}

// movedName is the name that the model writes in short.
func movedName(typeURL, name string) string {
	if !strings.HasPrefix(name, "/") {
		return name
	}
	return "xdstp://x/" + typeURL[strings.LastIndexByte(typeURL, '/')+1:] + "/g" + name
}

func movedResource(typeURL, name, content string) *wire.Resource {
	version, content, _ := strings.Cut(content, ":")
	content, ttl, expires := strings.Cut(content, "~")
	p := &discovery.Resource{Name: name, Version: version, Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte(name + content)}}
	if expires {
		d, err := time.ParseDuration(ttl)
		if err != nil {
			panic(err)
		}
		p.Ttl = durationpb.New(d)
	}
	if content == relayedOnly {
		p.CacheControl = &discovery.Resource_CacheControl{DoNotCache: true}
	}
	r, err := wire.NewResource(p)
	if err != nil {
		panic(err)
	}
	return r
}

// under reports whether a name is a member of a glob.
func under(name, glob string) bool {
	return keyer.IsXDSTP(name) && !keyer.IsGlob(name) && keyer.GlobOf(name) == glob
}

// means reports whether subscriptions have the server send a name.
func means(subs map[string]bool, name string) bool {
	return subs[name] || (subs[Wildcard] && !hidden(name)) || (keyer.IsXDSTP(name) && subs[keyer.GlobOf(name)])
}

// fail has the server report an error of a name to who subscribes to it: one that takes the
// resource away, or leaves it.
func (s *scopeServer) fail(typeURL, name string, gone bool) {
	e := wire.ResourceError{Name: name, Code: codes.Unavailable, Message: "why"}
	_, had := s.exists[typeURL][name]
	if gone && had && s.state && typeURL != cds {
		return // who follows "*" or a glob would not learn of it
	}
	if gone {
		delete(s.exists[typeURL], name)
		e.Code = codes.NotFound
	}
	for _, st := range s.streams {
		named := st != nil && st.subs[typeURL][name]
		switch {
		case st == nil || !means(st.subs[typeURL], name):
		case s.state && named:
			s.say(st, typeURL, e)
		case s.state:
			s.say(st, typeURL)
		case named:
			st.queue = append(st.queue, &wire.DeltaResponse{TypeURL: typeURL, Errors: []wire.ResourceError{e}})
		case gone && had:
			st.queue = append(st.queue, response(typeURL, "-"+name))
		}
	}
}

// failed is what the client does with errors.
func (c *scopeClient) failed(typeURL string, errs []*discovery.ResourceError) {
	for _, e := range errs {
		if codes.Code(e.GetErrorDetail().GetCode()) == codes.NotFound {
			c.drop(typeURL, e.GetResourceName().GetName())
		}
	}
}

// brought tells what no client can know: what of a glob that ended "*" has brought it too,
// or will tell it of. All else is the client's own to drop, since nobody has a word for it.
func (c *scopeClient) brought(typeURL, glob string) map[string]bool {
	names := map[string]bool{}
	if star := c.star(typeURL); star != nil {
		for _, n := range star.Brought(typeURL, []Name{nameOf(glob)}) {
			names[n.Spelling] = true
		}
	}
	return names
}

// twice reports whether a glob and "*" are of one store, and one of them is to end. Between
// these nothing is handed over: the client has to wait until both say the same.
func (c *scopeClient) twice(typeURL, name string) bool {
	glob := movedName(typeURL, "/*")
	return (name == glob || name == Wildcard) && c.subs[typeURL][glob] && c.subs[typeURL][Wildcard] &&
		c.at.of(typeURL, glob) == c.at.of(typeURL, Wildcard)
}

// rejoin has the client come back with what it holds, maybe to a relay that knows nothing.
func (c *scopeClient) rejoin(cold bool) {
	for _, p := range c.order {
		p.Leave()
	}
	if cold {
		c.world.cache.Expire(c.world.now.Add(2 * time.Hour))
	}
	c.log = append(c.log, "comes back")
	c.places, c.order, c.moving = map[int]*Client{}, nil, false
	clear(c.sent)
	clear(c.acked)
	c.presents = maps.Clone(c.shows)
	maps.DeleteFunc(c.presents, func(typeURL, _ string) bool { return !c.subs[typeURL][Wildcard] })
	c.ordered = c.ordered && !c.form.State // nobody knows of which clusters it has a list
	for _, typeURL := range movedTypes {
		subs, versions := c.subs[typeURL], c.versions[typeURL]
		c.subs[typeURL] = map[string]bool{}
		for _, n := range slices.Sorted(maps.Keys(subs)) {
			held := map[string]string{}
			for name, v := range versions {
				if !c.form.State && (name == n || under(name, n) || (n == Wildcard && !subs[name] && !subs[keyer.GlobOf(name)])) {
					held[keyOf(name)] = v
				}
			}
			c.begin(typeURL, n, held)
		}
	}
}
