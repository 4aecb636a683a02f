package cache

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"
)

// Streams are moved between three stores at random, whose control planes have resources of
// the same names and versions with other contents, or the same, and answer late or never.
// Moves come while others are not finished. When everything is quiet a client holds what a
// new one would, byte for byte, and nothing that every scope has is ever missing.

// answerWithin is the time that the modelled servers have to answer.
const answerWithin = 10 * time.Second

// scopeServer is the control plane of one scope.
type scopeServer struct {
	t       rapid.TB
	world   *scopes
	store   *Store
	scope   int
	exists  map[string]map[string]string // version and content, by type URL and name
	streams [2]*scopeStream
	away    bool            // its streams break, and it takes none
	silent  map[string]bool // types that it never answers, while that is so
	state   bool            // it speaks the state of the world, and calls every state of it the same
}

type scopeStream struct {
	subs  map[string]map[string]bool
	queue []*wire.DeltaResponse // of which one of the state of the world has the type and the resources
}

// scopes are all of them, and the clients.
type scopes struct {
	t       rapid.TB
	cache   *Cache
	now     time.Time
	servers []*scopeServer
	clients []*scopeClient
	waited  time.Duration // since everything was answered
	mute    bool          // a server was silent since it was quiet last: what it has may be missing
}

var (
	movedTypes = []string{cds, eds, rds}
	// Every scope has "kept" of every type, "only" clusters are of one, and a route refers to
	// that of its scope. What begins with a slash is of a glob: see movedName.
	movedNames = []string{"kept", "a", "b", "c", "route", "/1", "/2", "/*"}
)

func onlyIn(scope int) string { return fmt.Sprintf("only-%d", scope) }

func newScopes(t rapid.TB, n int, state bool) *scopes {
	w := &scopes{t: t, cache: New(Limits{Idle: time.Hour}, nil), now: time.Now()}
	w.cache.now = func() time.Time { return w.now }
	w.cache.minRun = 1
	for i := range n {
		s := &scopeServer{
			t: t, world: w, scope: i, exists: map[string]map[string]string{}, silent: map[string]bool{}, state: state,
			store: w.cache.Open(Source{
				Quiet: time.Second, Absent: answerWithin, FullState: map[string]bool{cds: true, lds: true}, Scope: onlyIn(i), State: state,
			}),
		}
		for _, typeURL := range movedTypes {
			s.exists[typeURL] = map[string]string{"kept": fmt.Sprintf("1:of %d", i%2)} // of the first and the third it is the same
		}
		s.exists[cds][onlyIn(i)] = "1:" + onlyIn(i)
		s.exists[rds]["route"] = "1:" + onlyIn(i)
		w.servers = append(w.servers, s)
	}
	return w
}

// hidden reports whether "*" does not mean a name.
func hidden(name string) bool { return name == "c" || strings.HasSuffix(name, "/1") }

// set changes a resource; "" removes it.
func (s *scopeServer) set(typeURL, name, content string) {
	if s.state && typeURL != cds && content == "" {
		return // it has no word for that
	}
	_, had := s.exists[typeURL][name]
	if content == "" {
		delete(s.exists[typeURL], name)
	} else {
		s.exists[typeURL][name] = content
	}
	for _, st := range s.streams {
		if st == nil || !means(st.subs[typeURL], name) {
			continue
		}
		switch {
		case s.state:
			s.say(st, typeURL)
		case content != "":
			st.queue = append(st.queue, &wire.DeltaResponse{TypeURL: typeURL, Resources: []*wire.Resource{movedResource(typeURL, name, content)}})
		case had:
			st.queue = append(st.queue, response(typeURL, "-"+name))
		}
	}
}

// say says all that a stream subscribes to of a type, in the state of the world, and errors.
func (s *scopeServer) say(st *scopeStream, typeURL string, errs ...wire.ResourceError) {
	r := &wire.DeltaResponse{TypeURL: typeURL, Errors: errs}
	for _, n := range slices.Sorted(maps.Keys(s.exists[typeURL])) {
		failing := slices.ContainsFunc(errs, func(e wire.ResourceError) bool { return e.Name == n })
		if means(st.subs[typeURL], n) && !failing {
			_, content, _ := strings.Cut(s.exists[typeURL][n], ":")
			r.Resources = append(r.Resources, movedResource(typeURL, n, ":"+content))
		}
	}
	if typeURL == cds || st.subs[typeURL][Wildcard] || len(r.Resources)+len(errs) > 0 {
		st.queue = append(st.queue, r)
	}
}

// pump takes what is asked for.
func (s *scopeServer) pump(stream int) {
	id := streamOf(stream)
	if s.away {
		return
	}
	if s.streams[stream] == nil {
		if s.store.StreamWanted(id) {
			s.streams[stream] = &scopeStream{subs: map[string]map[string]bool{}}
			for _, sub := range s.store.Restart(id, 1<<20) {
				s.answer(s.streams[stream], sub)
			}
		}
		return
	}
	subs, ok := s.store.TakeDemand(id)
	if !ok {
		s.lose(stream)
		return
	}
	for _, sub := range subs {
		s.answer(s.streams[stream], sub)
	}
}

func (s *scopeServer) answer(st *scopeStream, sub wire.Subscription) {
	if st.subs[sub.TypeURL] == nil {
		st.subs[sub.TypeURL] = map[string]bool{}
	}
	for _, n := range sub.Unsubscribe {
		delete(st.subs[sub.TypeURL], n)
	}
	if s.state {
		for _, n := range sub.Subscribe {
			st.subs[sub.TypeURL][n] = true
		}
		if !s.silent[sub.TypeURL] && len(sub.Subscribe) > 0 {
			s.say(st, sub.TypeURL)
		}
		return
	}
	r, star := &wire.DeltaResponse{TypeURL: sub.TypeURL}, false
	asked := map[string]bool{}
	for _, n := range sub.Subscribe {
		st.subs[sub.TypeURL][n], asked[n] = true, true
		star = star || n == Wildcard
	}
	for _, n := range slices.Sorted(maps.Keys(s.exists[sub.TypeURL])) {
		if means(asked, n) {
			r.Resources = append(r.Resources, movedResource(sub.TypeURL, n, s.exists[sub.TypeURL][n]))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(asked)) {
		switch glob := keyer.IsGlob(n); {
		case n == Wildcard:
		case glob && !slices.ContainsFunc(r.Resources, func(x *wire.Resource) bool { return under(x.Name, n) }), !glob && s.exists[sub.TypeURL][n] == "":
			r.Removed = append(r.Removed, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(sub.Versions)) {
		is := s.exists[sub.TypeURL][n] != "" && means(asked, n)
		if !is && !asked[n] && (star || under(n, keyer.GlobOf(n))) {
			r.Removed = append(r.Removed, n)
		}
	}
	if !s.silent[sub.TypeURL] && (star || len(r.Resources)+len(r.Removed) > 0) {
		st.queue = append(st.queue, r)
	}
}

func (s *scopeServer) deliver(stream int) bool {
	st := s.streams[stream]
	if st == nil || len(st.queue) == 0 {
		return false
	}
	r := st.queue[0]
	st.queue = st.queue[1:]
	var err error
	if s.state {
		err = s.store.ApplyState(streamOf(stream), &wire.StateResponse{TypeURL: r.TypeURL, VersionInfo: "7", Resources: r.Resources, Errors: r.Errors}, s.world.now)
	} else {
		err = s.store.Apply(streamOf(stream), r, s.world.now)
	}
	if err != nil {
		s.t.Fatalf("rejected: %v", err)
	}
	return true
}

func (s *scopeServer) lose(stream int) {
	if s.streams[stream] != nil {
		s.streams[stream] = nil
		s.store.Lost(streamOf(stream))
	}
}

func (w *scopes) quiet() {
	for busy := true; busy; {
		busy = false
		for _, s := range w.servers {
			for stream := range 2 {
				s.pump(stream)
				for s.deliver(stream) {
					busy = true
				}
			}
		}
	}
}

func (w *scopes) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, s := range w.servers {
		s.store.Settle(w.now)
	}
}

func (w *scopes) check(when string) {
	for i, s := range w.servers {
		if err := s.store.Check(); err != nil {
			w.t.Fatalf("%s: store %d: %v", when, i, err)
		}
	}
}

// where says in which scope each type and name lives. "*" is a name like others.
type where map[string]map[string]int

func (p where) of(typeURL, name string) int {
	if keyer.IsXDSTP(name) {
		name = authority
	}
	if at, ok := p[typeURL][name]; ok {
		return at
	}
	return p[typeURL][""]
}

// together reports whether all of it is one scope.
func (p where) together() bool {
	at := map[int]bool{}
	for _, names := range p {
		for _, scope := range names {
			at[scope] = true
		}
	}
	return len(at) == 1
}

// scopeClient is a stream with places in stores, and what its client holds.
type scopeClient struct {
	t        rapid.TB
	world    *scopes
	form     Form
	places   map[int]*Client
	order    []*Client
	at       where
	subs     map[string]map[string]bool
	holds    map[string]map[string]string // content by type URL and name
	versions map[string]map[string]string // of what it holds
	shows    map[string]string            // version_info by type URL, of the last response
	presents map[string]string            // what its stream began with
	had      map[string]bool              // types of which it has held "kept"
	nonce    uint64
	sent     map[string]uint64
	acked    map[string]uint64
	given    map[string]uint64
	moving   bool
	ordered  bool // it was quiet once, and every plan since then put all types together
	reopened int
	log      []string
}

func (w *scopes) join(form Form, at where) *scopeClient {
	c := &scopeClient{
		t: w.t, world: w, form: form, at: at, places: map[int]*Client{}, subs: map[string]map[string]bool{},
		holds: map[string]map[string]string{}, versions: map[string]map[string]string{}, had: map[string]bool{},
		shows: map[string]string{}, presents: map[string]string{},
		sent: map[string]uint64{}, acked: map[string]uint64{}, given: map[string]uint64{},
	}
	for _, typeURL := range movedTypes {
		c.subs[typeURL], c.holds[typeURL], c.versions[typeURL] = map[string]bool{}, map[string]string{}, map[string]string{}
	}
	w.clients = append(w.clients, c)
	return c
}

func (c *scopeClient) place(scope int) *Client {
	if c.places[scope] == nil {
		c.places[scope] = c.world.servers[scope].store.Join(func() {}, c.form)
		c.order = append(c.order, c.places[scope])
	}
	return c.places[scope]
}

// star is the place where "*" of a type is followed.
func (c *scopeClient) star(typeURL string) *Client {
	i := slices.IndexFunc(c.order, func(p *Client) bool { return p.Follows(typeURL) })
	if i < 0 {
		return nil
	}
	return c.order[i]
}

func (c *scopeClient) subscribe(typeURL, name string) {
	c.ordered = c.ordered && (typeURL != cds || c.subs[typeURL][name])
	c.begin(typeURL, name, nil)
}

// begin subscribes, and says what the client holds if its stream begins.
func (c *scopeClient) begin(typeURL, name string, versions map[string]string) {
	c.subs[typeURL][name] = true
	p := c.place(c.at.of(typeURL, name))
	ch := Change{TypeURL: typeURL, Subscribe: []Name{nameOf(name)}, Versions: wire.NewVersions(versions)}
	if c.sent[typeURL] == 0 {
		ch.VersionInfo = c.presents[typeURL]
	}
	p.Update(ch)
	switch star := c.star(typeURL); {
	case name == Wildcard:
		c.tellElsewhere(typeURL, p)
	case star != nil && star != p:
		if brought := star.Brought(typeURL, ch.Subscribe); len(brought) > 0 {
			p.Update(Change{TypeURL: typeURL, Answer: brought})
		}
		star.Update(Change{TypeURL: typeURL, Elsewhere: ch.Subscribe})
	}
}

func (c *scopeClient) tellElsewhere(typeURL string, star *Client) {
	for _, p := range c.order {
		if p != star {
			star.Update(Change{TypeURL: typeURL, Elsewhere: slices.Collect(p.Names(typeURL))})
		}
	}
}

func (c *scopeClient) unsubscribe(typeURL, name string) {
	if !c.subs[typeURL][name] {
		return
	}
	delete(c.subs[typeURL], name)
	p := c.place(c.at.of(typeURL, name))
	gone, kept := p.Update(Change{TypeURL: typeURL, Unsubscribe: []Name{nameOf(name)}})
	if star := c.star(typeURL); star != nil && star != p {
		star.Update(Change{TypeURL: typeURL, Answer: gone, Kept: kept})
	}
	c.ordered = c.ordered && typeURL != cds
	if c.presents[typeURL] != "" && name == Wildcard {
		c.presents[typeURL] = "of what it subscribes to no more"
	}
	brought := c.brought(typeURL, name)
	for n := range c.holds[typeURL] {
		if !c.covers(typeURL, n) || (under(n, name) && !c.subs[typeURL][n] && !brought[n]) {
			c.drop(typeURL, n)
		}
	}
	if !c.covers(typeURL, "kept") {
		delete(c.had, typeURL)
	}
}

func (c *scopeClient) drop(typeURL, name string) {
	delete(c.holds[typeURL], name)
	delete(c.versions[typeURL], name)
}

func (c *scopeClient) covers(typeURL, name string) bool {
	return c.subs[typeURL][name] || c.subs[typeURL][Wildcard] || c.subs[typeURL][keyer.GlobOf(name)]
}

// move does what a stream does when there is another plan.
func (c *scopeClient) move(at where) {
	c.ordered = c.ordered && at.together()
	c.log = append(c.log, fmt.Sprint("move to ", at))
	for _, typeURL := range movedTypes {
		if c.presents[typeURL] != "" {
			c.presents[typeURL] = "another scope"
		}
		groups := map[[2]int][]Name{}
		for name := range c.subs[typeURL] {
			if from, to := c.at.of(typeURL, name), at.of(typeURL, name); from != to {
				groups[[2]int{from, to}] = append(groups[[2]int{from, to}], nameOf(name))
			}
		}
		star, glob := c.star(typeURL), movedName(typeURL, "/*")
		part := Change{TypeURL: typeURL}
		if c.twice(typeURL, glob) && at.of(typeURL, glob) != at.of(typeURL, Wildcard) {
			part.Subscribe = []Name{nameOf(glob)}
			part.Answer = star.Brought(typeURL, part.Subscribe)
		}
		departed := map[[2]int]*Departed{}
		for g, names := range groups {
			p := c.places[g[0]]
			departed[g] = p.Depart(typeURL, names)
			if star != nil && star != p && star.Follows(typeURL) {
				star.Update(Change{TypeURL: typeURL, Kept: names})
			}
		}
		for g, d := range departed {
			c.place(g[1]).Update(Change{TypeURL: typeURL, Moved: []*Departed{d}})
		}
		if len(part.Subscribe) > 0 {
			c.place(at.of(typeURL, glob)).Update(part)
		}
		if star = c.star(typeURL); star != nil {
			c.tellElsewhere(typeURL, star)
		}
	}
	c.at = at
	c.order = slices.DeleteFunc(c.order, func(p *Client) bool {
		if slices.ContainsFunc(movedTypes, func(typeURL string) bool { return p.Watches(typeURL) > 0 }) {
			return false
		}
		maps.DeleteFunc(c.places, func(_ int, o *Client) bool { return o == p })
		p.Leave()
		return true
	})
	c.moving = true
	clear(c.given)
}

func (c *scopeClient) busy(typeURL string) bool { return c.acked[typeURL] < c.sent[typeURL] }

func (c *scopeClient) arrange() Arrangement {
	if !c.moving {
		return Arrangement{}
	}
	a := Arrange(c.order, func(typeURL string, given bool) bool {
		if _, known := c.given[typeURL]; !known {
			if !given {
				return false
			}
			c.given[typeURL] = c.sent[typeURL]
		}
		return c.acked[typeURL] >= c.given[typeURL]
	})
	c.moving = a.Left > 0
	return a
}

// collect is a stream's pass.
func (c *scopeClient) collect(size int) {
	for range 100 {
		before := c.arrange()
		var batches []*Batch
		more := false
		switch {
		case len(c.order) == 0:
		case c.form.State:
			batches, more = CollectStates(c.order, c.busy, size, 2)
		default:
			batches, more = c.collectDelta(size)
		}
		for _, b := range batches {
			c.nonce++
			c.sent[b.TypeURL] = c.nonce
			c.take(b)
		}
		if after := c.arrange(); after == before && !more {
			return
		}
	}
	c.t.Fatal("a pass brings another one without end")
}

func (c *scopeClient) collectDelta(size int) (batches []*Batch, more bool) {
	from := func(collect func(*Client, func(string) bool, int, int) ([]*Batch, bool, error)) {
		for _, p := range c.order {
			some, left, err := collect(p, c.busy, size, 2)
			if err != nil {
				c.t.Fatal(err)
			}
			batches, more = append(batches, some...), more || left
		}
	}
	byRank := func(a, b *Batch) int { return int(a.Rank) - int(b.Rank) }
	if len(c.order) > 1 {
		from((*Client).CollectAdditions)
		slices.SortStableFunc(batches, byRank)
		if more || slices.ContainsFunc(c.order, (*Client).Due) {
			return batches, more
		}
	}
	from((*Client).Collect)
	return batches, more
}

// take is what the client does with a response.
func (c *scopeClient) take(b *Batch) {
	holds, typeURL := c.holds[b.TypeURL], b.TypeURL
	content := func(name string, x *anypb.Any) string { return strings.TrimPrefix(string(x.Value), name) }
	if c.form.State {
		var r discovery.DiscoveryResponse
		c.must(proto.Unmarshal(b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes(), &r))
		if typeURL == cds && !b.Heartbeats {
			clear(holds)
		}
		for _, x := range r.Resources {
			var wrapped discovery.Resource
			c.must(proto.Unmarshal(x.Value, &wrapped))
			if wrapped.Resource != nil {
				holds[wrapped.Name] = content(wrapped.Name, wrapped.Resource)
			}
		}
		c.shows[typeURL] = r.VersionInfo
		c.failed(typeURL, r.ResourceErrors)
	} else {
		var r discovery.DeltaDiscoveryResponse
		c.must(proto.Unmarshal(b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes(), &r))
		for _, x := range r.Resources {
			if c.covers(typeURL, x.Name) && x.Resource != nil { // no heartbeat
				holds[x.Name], c.versions[typeURL][x.Name] = content(x.Name, x.Resource), x.Version
			}
		}
		for _, n := range r.RemovedResources {
			c.drop(typeURL, n)
		}
		c.failed(typeURL, r.ResourceErrors)
	}
	c.log = append(c.log, fmt.Sprintf("%s now %v", short[typeURL], holds))
	c.safe(typeURL)
}

func (c *scopeClient) must(err error) {
	if err != nil {
		c.t.Fatal(err)
	}
}

// safe holds that nothing is missing that the client needs.
func (c *scopeClient) safe(typeURL string) {
	if c.holds[typeURL]["kept"] != "" {
		c.had[typeURL] = true
	} else if c.had[typeURL] && c.covers(typeURL, "kept") && !c.world.mute {
		c.t.Fatalf("%v: %s lost what every scope has: %v", c.log, short[typeURL], c.holds[typeURL])
	}
	if r := c.holds[rds]["route"]; r != "" && c.ordered && !c.world.mute && c.subs[cds][Wildcard] && c.holds[cds][r] == "" {
		c.t.Fatalf("%v: ADS-1: a route to %q, which the client does not have: %v", c.log, r, c.holds[cds])
	}
}

// want is what a new client would hold.
func (c *scopeClient) want(typeURL string) map[string]string {
	want := map[string]string{}
	if c.subs[typeURL][Wildcard] {
		for n, x := range c.world.servers[c.at.of(typeURL, Wildcard)].exists[typeURL] {
			if !hidden(n) {
				want[n] = x
			}
		}
	}
	for n := range c.subs[typeURL] {
		exists := c.world.servers[c.at.of(typeURL, n)].exists[typeURL]
		if n == Wildcard {
			continue
		}
		maps.DeleteFunc(want, func(member, _ string) bool { return member == n || under(member, n) })
		for member, x := range exists {
			if member == n || under(member, n) {
				want[member] = x
			}
		}
	}
	for n, x := range want {
		_, x, _ = strings.Cut(x, ":")
		want[n], _, _ = strings.Cut(x, "~")
	}
	return want
}

// finish lets everything come to rest, and has the client begin anew where it was told to.
func (c *scopeClient) finish() {
	for c.rest(); c.isStranded(); c.rest() {
		c.reopen()
	}
}

// rest has the client take and acknowledge all that there is.
func (c *scopeClient) rest() {
	for range 8 {
		c.world.quiet()
		c.collect(1 << 20)
		maps.Copy(c.acked, c.sent)
	}
	c.collect(1 << 20)
}

func (c *scopeClient) isStranded() bool {
	return slices.ContainsFunc(c.order, func(p *Client) bool { _, _, found := p.Stranded(); return found })
}

// reopen is what a client does whose stream was closed, and that starts afresh.
func (c *scopeClient) reopen() {
	for _, p := range c.order {
		p.Leave()
	}
	c.reopened++
	c.places, c.order, c.moving = map[int]*Client{}, nil, false
	clear(c.sent)
	clear(c.acked)
	clear(c.shows)
	clear(c.presents)
	for _, typeURL := range movedTypes {
		subs := c.subs[typeURL]
		c.subs[typeURL], c.holds[typeURL], c.versions[typeURL] = map[string]bool{}, map[string]string{}, map[string]string{}
		delete(c.had, typeURL)
		for n := range subs {
			c.subscribe(typeURL, n)
		}
	}
}

func TestModelMove_ADS1_RES2_RES3_RES7_RES11(t *testing.T) {
	for name, form := range map[string]Form{
		"incremental": {}, "state of the world": {State: true, Wrapped: true}, "incremental with ttl": {TTL: true},
		"state of the world with ttl": {State: true, Wrapped: true, TTL: true},
	} {
		for source, state := range map[string]bool{"incremental": false, "the state of the world": true} {
			t.Run(name+" from "+source, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { testModelMove(t, form, state) })
			})
		}
	}
}

func testModelMove(t *rapid.T, form Form, state bool) {
	w := newScopes(t, 3, state)
	scope := func(label string) int { return rapid.IntRange(0, len(w.servers)-1).Draw(t, label) }
	plan := func() where {
		at := where{}
		one := scope("all")
		for _, typeURL := range movedTypes {
			at[typeURL] = map[string]int{"": one}
		}
		if rapid.IntRange(0, 2).Draw(t, "authority") == 0 { // of its own
			apart := scope("authority's")
			for _, typeURL := range movedTypes {
				at[typeURL][authority] = apart
			}
		}
		switch rapid.IntRange(0, 4).Draw(t, "plan") {
		case 0: // types apart
			for _, typeURL := range movedTypes {
				at[typeURL][""] = scope("type")
			}
		case 1: // names apart
			for _, name := range movedNames {
				if !strings.HasPrefix(name, "/") {
					at[rapid.SampledFrom(movedTypes).Draw(t, "type")][name] = scope("name")
				}
			}
		}
		return at
	}
	client := func() *scopeClient {
		if len(w.clients) == 0 {
			c := w.join(form, plan())
			c.subscribe(cds, Wildcard)
			c.subscribe(rds, "route")
			c.subscribe(eds, "kept")
			return c
		}
		return w.clients[rapid.IntRange(0, len(w.clients)-1).Draw(t, "client")]
	}
	server := func() *scopeServer { return w.servers[scope("server")] }
	finish := func(when string) {
		for _, s := range w.servers {
			s.away = false
			clear(s.silent)
			for stream := range 2 { // what was not answered is asked for again
				s.lose(stream)
			}
		}
		for range 3 {
			w.quiet()
			w.pass(2 * answerWithin)
		}
		w.mute = false
		for i, c := range w.clients {
			c.finish()
			for _, typeURL := range movedTypes {
				want := c.want(typeURL)
				if form.State && typeURL != cds { // nobody tells it what is gone from one scope (RES-3)
					maps.DeleteFunc(c.holds[typeURL], func(n, _ string) bool { _, there := want[n]; return !there })
				}
				if !maps.Equal(c.holds[typeURL], want) {
					t.Fatalf("%s client %d: %s holds %v, a new one would hold %v\n%s", when, i, short[typeURL], c.holds[typeURL], want, strings.Join(c.log, "\n"))
				}
			}
			if c.moving {
				t.Fatalf("%s client %d is moving still: %+v\n%s", when, i, c.arrange(), strings.Join(c.log, "\n"))
			}
			c.ordered = c.at.together()
			c.log = nil
		}
		w.check(when)
	}
	t.Repeat(map[string]func(*rapid.T){
		"set": func(t *rapid.T) {
			typeURL := rapid.SampledFrom(movedTypes).Draw(t, "type")
			name := movedName(typeURL, rapid.SampledFrom(changing).Draw(t, "name"))
			s := server()
			content := rapid.SampledFrom([]string{"", "x", "y", "z", longLived, relayedOnly}).Draw(t, "content")
			if content != "" { // a server has one version for one content, and others may have it for another
				content = fmt.Sprintf("%d:%s", (strings.Index("xyzto", content[:1])+s.scope%2)%5, content)
			}
			s.set(typeURL, name, content)
		},
		"fail": func(t *rapid.T) {
			typeURL := rapid.SampledFrom(movedTypes).Draw(t, "type")
			server().fail(typeURL, movedName(typeURL, rapid.SampledFrom(changing).Draw(t, "name")), rapid.Bool().Draw(t, "gone"))
		},
		"rejoin": func(t *rapid.T) {
			c, cold := client(), rapid.Bool().Draw(t, "cold")
			finish("before it comes back")
			c.rejoin(cold)
		},
		"evict": func(*rapid.T) { w.cache.Expire(w.now.Add(2 * time.Hour)) },
		"join": func(*rapid.T) {
			c := w.join(form, plan())
			c.subscribe(cds, Wildcard)
			c.subscribe(rds, "route")
		},
		"subscribe": func(t *rapid.T) {
			name := rapid.SampledFrom(append([]string{Wildcard}, movedNames...)).Draw(t, "name")
			typeURL := rapid.SampledFrom(movedTypes).Draw(t, "type")
			if c := client(); !(form.State && typeURL != cds && name == Wildcard) {
				c.subscribe(typeURL, movedName(typeURL, name))
			}
		},
		"unsubscribe": func(t *rapid.T) {
			c, typeURL := client(), rapid.SampledFrom(movedTypes).Draw(t, "type")
			name := movedName(typeURL, rapid.SampledFrom(append([]string{Wildcard}, movedNames...)).Draw(t, "name"))
			if c.twice(typeURL, name) {
				finish("before a glob or \"*\" ends")
			}
			c.unsubscribe(typeURL, name)
		},
		"move":    func(*rapid.T) { client().move(plan()) },
		"move 2":  func(*rapid.T) { client().move(plan()) },
		"collect": func(t *rapid.T) { client().collect(rapid.SampledFrom([]int{1, 1 << 20}).Draw(t, "size")) },
		"ack": func(t *rapid.T) {
			c := client()
			typeURL := rapid.SampledFrom(movedTypes).Draw(t, "type")
			c.acked[typeURL] = c.sent[typeURL]
		},
		"demand":  func(t *rapid.T) { server().pump(rapid.IntRange(0, 1).Draw(t, "stream")) },
		"deliver": func(t *rapid.T) { server().deliver(rapid.IntRange(0, 1).Draw(t, "stream")) },
		"quiet":   func(*rapid.T) { w.quiet() },
		"pass": func(t *rapid.T) {
			d := time.Duration(rapid.IntRange(1, 6).Draw(t, "s")) * time.Second
			if w.waited += d; w.waited >= answerWithin { // who is not silent answers in time
				w.quiet()
				w.waited = d
			}
			w.pass(d)
		},
		"silent": func(t *rapid.T) {
			server().silent[rapid.SampledFrom(movedTypes).Draw(t, "type")] = true
			w.mute = true
		},
		"away": func(*rapid.T) {
			s := server()
			if s.away = !s.away; s.away {
				s.lose(0)
				s.lose(1)
			}
		},
		"finish": func(*rapid.T) { finish("in between") },
		"":       func(*rapid.T) { w.check("a step") },
	})
	finish("in the end")
	for _, c := range w.clients {
		for _, p := range c.order {
			p.Leave()
		}
	}
	w.cache.Expire(w.now.Add(2 * time.Hour))
	w.quiet()
	if w.cache.Resources() != 0 {
		t.Fatalf("%d resources left", w.cache.Resources())
	}
}
