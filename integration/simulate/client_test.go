package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// client is one client: from a start to the next it holds what it was sent, and comes back
// with that, or with nothing if it does not resume.
type client struct {
	sim  *simulation
	n    int
	host string
	at   string // the host of its relay
	member

	mu        sync.Mutex
	subs      map[string]map[string]bool // by type
	xds       *xdsclient.Client
	paused    bool
	holding   bool
	clusters  bool                    // came on this stream: before, a client brings what it has along
	since     map[plane.Key]time.Time // what it holds, and since when
	served    map[plane.Key]bool      // what it was given since it started, and was not removed: in any of its lives
	stop      context.CancelFunc      // nil: it does not run
	done      chan struct{}
	responses int
}

func newClient(s *simulation, n int) *client {
	c := &client{sim: s, n: n, host: fmt.Sprint("10.3.0.", n+1), member: memberOf(s.seed, n), subs: make(map[string]map[string]bool)}
	if c.at = relayHost(c.tier); s.atTwin(n, c.tier) {
		c.at = relayHost(twinAt)
	}
	for typeURL, names := range c.member.subs {
		c.subs[typeURL] = make(map[string]bool)
		for _, name := range names {
			c.subs[typeURL][name] = true
		}
	}
	if s.choices.delicate && !c.form.rest && n%4 == 2 {
		c.subs[plane.Endpoints][unkept] = true
	}
	return c
}

func (c *client) String() string { return fmt.Sprintf("client %d (%s at %s)", c.n, c.form, c.at) }

// start runs the client, which holds nothing.
func (c *client) start() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.mu.Lock()
	c.stop, c.done, c.served = cancel, done, make(map[plane.Key]bool)
	c.mu.Unlock()
	go func() {
		defer close(done)
		c.run(ctx)
	}()
}

// end stops it.
func (c *client) end() {
	c.mu.Lock()
	stop, done := c.stop, c.done
	c.stop = nil
	c.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// run is one life after the other; one that resumes has a single one.
func (c *client) run(ctx context.Context) {
	random := rand.New(rand.NewPCG(c.sim.seed, 1000+uint64(c.n)))
	for ctx.Err() == nil {
		end := c.open()
		if c.resumes {
			_ = c.xds.Follow(ctx, xdsclient.Backoff{}, nil) // ctx ends it
		} else {
			_ = c.xds.Run(ctx) // whatever the reason is
		}
		end()
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(random.Int64N(int64(3 * time.Second)))):
		}
	}
}

// open makes a client that holds nothing, and its connection.
func (c *client) open() (end func()) {
	options := xdsclient.Options{
		Node: &corev3.Node{Id: fmt.Sprint("client-", c.n), Cluster: c.cluster}, KeepResources: true, PerType: c.form.perType,
		ResourceInSotW: c.n%3 == 0, OnOpen: c.opened, PollInterval: 2 * time.Second, PresentVersion: true,
	}
	var x *xdsclient.Client
	options.OnResponse = func(r *xdsclient.Response) error { return c.response(x, r) }
	dial := c.sim.network.dialer(c.host)
	if c.form.rest {
		scheme, tls := c.sim.fleet.polls()
		transport := &http.Transport{DialContext: dial, ResponseHeaderTimeout: time.Minute, TLSClientConfig: tls}
		options.Form, options.HTTP, options.URL = xdsclient.REST, &http.Client{Transport: transport}, scheme+"://"+c.at+":"+restPort
		end = transport.CloseIdleConnections
	} else {
		conn, err := xdsclient.Dial("passthrough:///"+c.at+":"+xdsPort, c.sim.fleet.creds(),
			grpc.WithContextDialer(func(ctx context.Context, to string) (conn netConn, err error) { return dial(ctx, "tcp", to) }),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}))
		if err != nil {
			panic(err) // of what we gave it
		}
		if options.Conn = conn; c.form.state {
			options.Form = xdsclient.SotW
		}
		end = func() { _ = conn.Close() }
	}
	x = xdsclient.New(options)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.xds, c.since = x, make(map[plane.Key]time.Time)
	for _, typeURL := range types() {
		names := c.namesLocked(typeURL)
		switch {
		case len(names) == 0:
		case len(names) == 1 && names[0] == xdsclient.Wildcard && c.n%2 == 0:
			x.Subscribe(typeURL) // in the legacy form
		default:
			x.Subscribe(typeURL, names...)
		}
	}
	if c.paused {
		x.Pause()
	}
	x.HoldAcks(c.holding)
	return end
}

func (c *client) namesLocked(typeURL string) []string {
	var names []string
	for name := range c.subs[typeURL] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// opened is called when a stream begins.
func (c *client) opened(typeURL string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if typeURL == "" || typeURL == plane.Cluster {
		c.clusters = false
	}
	c.sim.note("%s: a stream of %q", c, keyer.ShortName(typeURL))
}

// response looks at a response before it is applied. x is the client's life: one before may
// still be reading.
func (c *client) response(x *xdsclient.Client, r *xdsclient.Response) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.responses++
	c.sim.countResponse()
	if c.sim.logging() {
		var what []string
		for i := range r.Changes {
			ch := &r.Changes[i]
			text := ch.Kind.String() + " " + ch.Name
			if ch.Resource != nil && ch.Resource.HasPayload() {
				if t := c.sim.contents.find(ch.Resource.Any()); t != nil {
					text += fmt.Sprint(" v", t.value)
				}
			}
			if ch.Error != nil {
				text += fmt.Sprint(" ", ch.Error.Code, " ", ch.Error.Message)
			}
			what = append(what, text)
		}
		c.sim.note("%s: %s: %s", c, keyer.ShortName(r.TypeURL), strings.Join(what, ", "))
	}
	if x != c.xds {
		return nil
	}
	c.judge(r)
	if r.TypeURL == plane.Cluster {
		c.clusters = c.clusters || slices.ContainsFunc(r.Changes, func(ch xdsclient.Change) bool { return keyer.GlobOf(ch.Name) == "" })
	}
	return nil
}

// pause stops reading, or goes on.
func (c *client) pause(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = on
	switch {
	case c.xds == nil:
	case on:
		c.xds.Pause()
	default:
		c.xds.Resume()
	}
}

// hold keeps acknowledgements back, or sends them.
func (c *client) hold(on bool) {
	c.mu.Lock()
	x := c.xds
	c.holding = on
	c.mu.Unlock()
	if x != nil {
		x.HoldAcks(on)
	}
}

// subscribe changes what the client wants by one name. It reports whether it does.
func (c *client) subscribe(typeURL, name string, on bool) bool {
	c.mu.Lock()
	x := c.xds
	if c.subs[typeURL] == nil {
		c.subs[typeURL] = make(map[string]bool)
	}
	changes := c.subs[typeURL][name] != on
	if on {
		c.subs[typeURL][name] = true
	} else {
		delete(c.subs[typeURL], name)
	}
	c.mu.Unlock()
	switch {
	case !changes || x == nil:
		return changes
	case on:
		x.Subscribe(typeURL, name)
	default:
		x.Unsubscribe(typeURL, name)
		c.mu.Lock()
		for k := range c.since {
			if _, held := x.Get(k.TypeURL, k.Name); !held {
				delete(c.since, k)
			}
		}
		c.mu.Unlock()
	}
	return changes
}

// covers reports whether the client wants a resource, and whether it does so by its name.
func (c *client) covers(k plane.Key) (wanted, byName bool) {
	subs := c.subs[k.TypeURL]
	if subs[k.Name] {
		return true, true
	}
	if glob := keyer.GlobOf(k.Name); glob != "" {
		return subs[glob], false
	}
	return subs[xdsclient.Wildcard], false
}
