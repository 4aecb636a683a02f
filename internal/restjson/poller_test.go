package restjson

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/protobuf/encoding/protojson"
)

// reply is what the server in these tests says to a poll.
type reply struct {
	status int
	body   string
	hold   time.Duration // before it answers
	err    error         // of the connection, instead of all that
	conn   *connection   // that it comes over; nil: not told
}

// version is a reply with a resource, at a version that is its nonce's too.
func version(v string) reply {
	return reply{status: 200, body: fmt.Sprintf(`{"versionInfo":%q,"nonce":"n%s","resources":[{"@type":%q,"name":"x"}]}`, v, v, resource.ClusterType)}
}

// connection is one of the client's.
type connection struct {
	net.Conn

	_ byte // two of them are two
}

func (r reply) over(c *connection) reply {
	r.conn = c
	return r
}

func (r reply) held(d time.Duration) reply {
	r.hold = d
	return r
}

var (
	notModified = reply{status: 304}
	down        = reply{err: errors.New("connection refused")}
)

// asked is one poll as the server saw it.
type asked struct {
	at, until time.Duration // since the beginning
	given     bool          // it was given up by the poller
	request   *discoveryv3.DiscoveryRequest
}

func (a asked) String() string {
	r := a.request
	text := fmt.Sprintf("names=%v version=%q nonce=%q", r.GetResourceNames(), r.GetVersionInfo(), r.GetResponseNonce())
	if r.GetErrorDetail() != nil {
		text += fmt.Sprintf(" nack=%q", r.GetErrorDetail().GetMessage())
	}
	return text
}

// server answers polls in memory, so that time can be fake.
type server struct {
	tb      testing.TB
	began   time.Time
	answers func(n int, r *discoveryv3.DiscoveryRequest) reply

	mu    sync.Mutex
	polls []asked // guarded by mu
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a := asked{at: time.Since(s.began), request: new(discoveryv3.DiscoveryRequest)}
	if err := protojson.Unmarshal(body, a.request); err != nil {
		s.tb.Errorf("a bad request: %v in %s", err, body)
		return nil, err
	}
	s.mu.Lock()
	n := len(s.polls)
	s.polls = append(s.polls, a)
	s.mu.Unlock()
	said := s.answers(n, a.request)
	if trace := httptrace.ContextClientTrace(r.Context()); said.conn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: said.conn})
	}
	timer := time.NewTimer(said.hold)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		said.err = r.Context().Err()
	}
	s.mu.Lock()
	s.polls[n].until, s.polls[n].given = time.Since(s.began), r.Context().Err() != nil
	s.mu.Unlock()
	if said.err != nil {
		return nil, said.err
	}
	return answer{said.status, contentType, said.body}.response(), nil
}

func (s *server) seen() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.polls...)
}

// inOrder gives one reply after the other, the last one again and again.
func inOrder(replies ...reply) func(int, *discoveryv3.DiscoveryRequest) reply {
	return func(n int, _ *discoveryv3.DiscoveryRequest) reply { return replies[min(n, len(replies)-1)] }
}

// owner notes what a poller tells.
type owner struct {
	reject func(*Response) error

	mu   sync.Mutex
	told []string // guarded by mu
}

func (o *owner) OnResponse(r *Response, names []string) error {
	o.tell(fmt.Sprintf("%s for %v", r.Version, names))
	if o.reject == nil {
		return nil
	}
	return o.reject(r)
}
func (o *owner) OnUnchanged()      { o.tell("unchanged") }
func (o *owner) OnError(err error) { o.tell(err.Error()) }

func (o *owner) tell(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, what)
}

func (o *owner) heard() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.told...)
}

// bed is a poller with its server and its owner, in a bubble.
type bed struct {
	tb     testing.TB
	server *server
	owner  *owner
	poller *Poller
	stop   func()
}

const interval = 10 * time.Second

// start runs a poller of clusters that is subscribed to "*" unless change says
// otherwise.
func start(tb testing.TB, answers func(int, *discoveryv3.DiscoveryRequest) reply, change ...func(*PollerConfig, *owner)) *bed {
	tb.Helper()
	b := &bed{tb: tb, owner: new(owner), server: &server{tb: tb, began: time.Now(), answers: answers}}
	cfg := PollerConfig{
		Client: &http.Client{Transport: b.server}, Base: &url.URL{Scheme: "http", Host: "cp"},
		TypeURL: resource.ClusterType, Node: &corev3.Node{Id: "n"}, Names: []string{"*"}, FullState: true,
		Interval: interval, BackoffBase: time.Second, BackoffMax: 8 * time.Second, Handler: b.owner,
	}
	for _, c := range change {
		c(&cfg, b.owner)
	}
	var err error
	if b.poller, err = NewPoller(cfg); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.poller.Run(ctx); !errors.Is(err, context.Canceled) {
			tb.Errorf("Run: %v", err)
		}
	})
	b.stop = func() {
		cancel()
		running.Wait()
	}
	return b
}

// after lets time pass, then waits until nothing happens any more.
func (b *bed) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bed) wantAsked(want ...string) {
	b.tb.Helper()
	var got []string
	for _, a := range b.server.seen() {
		got = append(got, a.String())
	}
	b.compare("asked", got, want)
}

func (b *bed) wantTold(want ...string) {
	b.tb.Helper()
	b.compare("told", b.owner.heard(), want)
}

func (b *bed) compare(what string, got, want []string) {
	b.tb.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		b.tb.Errorf("%s\n%s\nwant\n%s", what, g, w)
	}
}

func TestREST3_intervalWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow = 2 * time.Second
		b := start(t, func(n int, _ *discoveryv3.DiscoveryRequest) reply {
			return []reply{version("1"), notModified}[min(n, 1)].held(slow)
		})
		defer b.stop()
		b.after(1000 * time.Second)
		polls := b.server.seen()
		if polls[0].at != 0 {
			t.Errorf("the first poll after %v", polls[0].at)
		}
		lengths := map[time.Duration]bool{}
		for i := 1; i < len(polls); i++ {
			pause := polls[i].at - polls[i-1].until
			lengths[pause] = true
			if pause < interval*3/4 || pause > interval*5/4 {
				t.Errorf("poll %d began %v after the end of the one before", i, pause)
			}
		}
		if len(polls) < 60 || len(lengths) < len(polls)/2 {
			t.Errorf("%d polls at %d different intervals", len(polls), len(lengths))
		}
		if told := b.owner.heard(); told[0] != "1 for []" || told[1] != "unchanged" {
			t.Errorf("told %q", told)
		}
	})
}

func TestREST3_longPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, inOrder(version("1"), notModified.held(30*time.Second), version("2").held(interval), notModified.held(time.Hour)))
		defer b.stop()
		b.after(30 * time.Minute)
		polls := b.server.seen()
		if len(polls) != 4 {
			t.Fatalf("%d polls", len(polls))
		}
		for i := 2; i < 4; i++ {
			if polls[i].at != polls[i-1].until {
				t.Errorf("poll %d at %v, while the one before was held until %v", i, polls[i].at, polls[i-1].until)
			}
		}
		b.wantAsked(
			`names=[] version="" nonce=""`, `names=[] version="1" nonce="n1"`,
			`names=[] version="1" nonce="n1"`, `names=[] version="2" nonce="n2"`)
		b.wantTold("1 for []", "unchanged", "2 for []")
	})
}

// TestREST3_ACK4_errors: what was said before a failure is not built upon.
func TestREST3_ACK4_errors(t *testing.T) {
	for name, tt := range map[string]struct {
		failure reply
		told    string
	}{
		"the connection":     {down, `Post "http://cp/v3/discovery:clusters": connection refused`},
		"a status":           {reply{status: 503, body: `{"code":14,"message":"draining"}`}, "HTTP status 503 (Service Unavailable): draining"},
		"too large a answer": {reply{status: 200, body: strings.Repeat(" ", 2000)}, "restjson: the response is larger than the limit of 1000 bytes"},
	} {
		t.Run("REST-3 ACK-4 "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, inOrder(version("1"), tt.failure, tt.failure, version("1"), notModified), func(c *PollerConfig, _ *owner) { c.MaxResponse = 1000 })
				defer b.stop()
				b.after(40 * time.Second)
				b.wantAsked(append([]string{
					`names=[] version="" nonce=""`, `names=[] version="1" nonce="n1"`,
					`names=[] version="unconfirmed" nonce=""`, `names=[] version="unconfirmed" nonce=""`,
				}, repeat(`names=[] version="1" nonce="n1"`, len(b.server.seen())-4)...)...)
				b.wantTold(append([]string{"1 for []", tt.told, tt.told, "1 for []"}, repeat("unchanged", len(b.owner.heard())-4)...)...)
			})
		})
	}
}

// TestACK4_restartBetweenPolls: a server that starts again with the same version
// and other contents while nobody asks says 304 to what it never sent.
func TestACK4_restartBetweenPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := new(connection), new(connection)
		b := start(t, inOrder(version("1").over(before), notModified.over(before), notModified.over(before),
			notModified.over(after), version("1").over(after), notModified.over(after)))
		defer b.stop()
		for len(b.server.seen()) < 6 {
			b.after(time.Second)
		}
		const nothing, one = `names=[] version="" nonce=""`, `names=[] version="1" nonce="n1"`
		b.wantAsked(nothing, one, one, one, `names=[] version="unconfirmed" nonce="n1"`, one)
		b.wantTold("1 for []", "unchanged", "unchanged", "1 for []", "unchanged")
		if polls := b.server.seen(); polls[4].at != polls[3].until {
			t.Errorf("asked again at %v, the doubt is of %v", polls[4].at, polls[3].until)
		}
	})
}

// TestACK4_restartWithARejection: neither does a response that was rejected make
// the version before it one of the new server's.
func TestACK4_restartWithARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := new(connection), new(connection)
		b := start(t, inOrder(version("1").over(before), version("2").over(after), notModified.over(after)), func(_ *PollerConfig, o *owner) {
			o.reject = func(r *Response) error {
				if r.Version == "2" {
					return errors.New("no such thing")
				}
				return nil
			}
		})
		defer b.stop()
		for len(b.server.seen()) < 4 {
			b.after(time.Second)
		}
		b.wantAsked(`names=[] version="" nonce=""`, `names=[] version="1" nonce="n1"`,
			`names=[] version="unconfirmed" nonce="n2" nack="no such thing"`, `names=[] version="unconfirmed" nonce="n2"`)
	})
}

// TestACK4_connectionsNotKept: without a connection that lasts there is no telling
// whether it is still the same server, so each poll asks for everything.
func TestACK4_connectionsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, func(_ int, r *discoveryv3.DiscoveryRequest) reply {
			if r.GetVersionInfo() == "1" {
				return notModified.over(new(connection))
			}
			return version("1").over(new(connection))
		})
		defer b.stop()
		b.after(time.Hour)
		polls := b.server.seen()
		for i, a := range polls {
			if presented := a.request.GetVersionInfo() == "1"; presented != (i == 1) {
				t.Errorf("poll %d: %v", i, a)
			}
			if i > 2 && a.at-polls[i-1].until < interval*3/4 {
				t.Errorf("poll %d came after %v", i, a.at-polls[i-1].until)
			}
		}
		if told := b.owner.heard(); len(told) != len(polls)-1 || told[1] != "1 for []" {
			t.Errorf("%d polls, told %q", len(polls), told)
		}
	})
}

// TestRES2_pollerThatHoldsSomething presents a version from its first poll on, as a
// client that was cut off does. One that never had anything to lose does not, and a
// 304 to either is no reason to ask again at once.
func TestRES2_pollerThatHoldsSomething(t *testing.T) {
	for held, first := range map[bool]string{true: "unconfirmed", false: ""} {
		synctest.Test(t, func(t *testing.T) {
			other := func(r reply) reply { return r.over(new(connection)) }
			b := start(t, inOrder(other(notModified), down, other(notModified), other(notModified), other(version("1"))),
				func(c *PollerConfig, _ *owner) { c.Held = held })
			defer b.stop()
			for len(b.server.seen()) < 6 {
				b.after(time.Second)
			}
			b.wantAsked(append(repeat(fmt.Sprintf(`names=[] version=%q nonce=""`, first), 5), `names=[] version="unconfirmed" nonce="n1"`)...)
			polls := b.server.seen()
			for i, a := range polls[1:] {
				if a.at == polls[i].until {
					t.Errorf("held %t: poll %d followed at once", held, i+1)
				}
			}
		})
	}
}

func repeat(s string, n int) []string {
	var all []string
	for range n {
		all = append(all, s)
	}
	return all
}

func TestOPS2_backoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, inOrder(down))
		defer b.stop()
		// A changed subscription is no reason to press a server that is gone.
		for range 1000 {
			b.after(time.Second)
			b.poller.SetNames([]string{fmt.Sprint(time.Since(b.server.began))})
		}
		polls := b.server.seen()
		var sum time.Duration
		for i := 1; i < len(polls); i++ {
			pause := polls[i].at - polls[i-1].until
			if bound := min(time.Second<<min(i-1, 10), 8*time.Second); pause > bound {
				t.Errorf("poll %d after %v, the bound is %v", i, pause, bound)
			}
			sum += pause
		}
		if mean := sum / time.Duration(len(polls)); mean < 3*time.Second || mean > 5*time.Second {
			t.Errorf("%d polls, %v apart: a full jitter below 8s is 4s in the mean", len(polls), mean)
		}
		b.server.mu.Lock()
		b.server.answers = inOrder(version("1"))
		b.server.mu.Unlock()
	})
}

func TestACK2_rejections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := reply{status: 200, body: `{"versionInfo":"3","nonce":"n3","resources":[{"@type":"x/y"}]}`}
		b := start(t, inOrder(version("1"), version("2"), version("2"), broken, down, broken, notModified, notModified), func(_ *PollerConfig, o *owner) {
			o.reject = func(r *Response) error {
				if r.Version == "2" {
					return errors.New("no such thing")
				}
				return nil
			}
		})
		defer b.stop()
		for len(b.server.seen()) < 8 {
			b.after(time.Second)
		}
		const unknown = "cannot decode resources[0]: line 1:10: this build does not know the type x/y"
		b.wantAsked(
			`names=[] version="" nonce=""`,
			`names=[] version="1" nonce="n1"`,
			`names=[] version="1" nonce="n2" nack="no such thing"`,
			`names=[] version="1" nonce="n2" nack="no such thing"`,
			`names=[] version="1" nonce="n3" nack="`+unknown+`"`,
			`names=[] version="unconfirmed" nonce=""`, // begun anew after the failure
			`names=[] version="unconfirmed" nonce="n3" nack="`+unknown+`"`,
			`names=[] version="unconfirmed" nonce="n3"`, // STR-8: it was told
		)
		b.wantTold("1 for []", "2 for []", "2 for []", unknown, `Post "http://cp/v3/discovery:clusters": connection refused`, unknown, "unchanged", "unchanged")
		for i, a := range b.server.seen()[2:5] {
			if pause := a.at - b.server.seen()[i+1].until; pause > time.Second<<i {
				t.Errorf("poll %d came %v after a rejection, the bound is %v", i+2, pause, time.Second<<i)
			}
		}
	})
}

func TestSUB10_namesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := func(n int, r *discoveryv3.DiscoveryRequest) reply {
			if r.GetVersionInfo() != "" && r.GetVersionInfo() != wire.Unconfirmed {
				return notModified.held(time.Hour)
			}
			return version(fmt.Sprint(n))
		}
		b := start(t, held, func(c *PollerConfig, _ *owner) { c.Names = []string{"b", "a", "b"} })
		defer b.stop()
		b.after(time.Minute) // the second poll is held
		b.poller.SetNames([]string{"b", "a"})
		b.after(time.Minute)
		if n := len(b.server.seen()); n != 2 {
			t.Errorf("the same names led to poll %d", n)
		}
		changed := time.Since(b.server.began)
		b.poller.SetNames([]string{"a", "b", "c"})
		b.after(time.Millisecond)
		b.poller.SetNames([]string{"d", "c", "b"})
		b.after(time.Minute) // again one is held
		polls := b.server.seen()
		if !polls[1].given || polls[1].until != changed {
			t.Errorf("the held poll ended at %v (given up: %v), the names changed at %v", polls[1].until, polls[1].given, changed)
		}
		if polls[2].at != changed+DefaultBatch {
			t.Errorf("asked again at %v, the names changed at %v", polls[2].at, changed)
		}
		b.wantAsked(
			`names=[a b] version="" nonce=""`, `names=[a b] version="0" nonce="n0"`,
			`names=[b c d] version="unconfirmed" nonce=""`, `names=[b c d] version="2" nonce="n2"`)
		b.wantTold("0 for [a b]", "2 for [b c d]")
	})
}

func TestSUB4_wildcard(t *testing.T) {
	for name, tt := range map[string]struct {
		names     []string
		fullState bool
		want      string
	}{
		"SUB-4 of a full-state type":      {[]string{"*"}, true, `[]`},
		"SUB-4 of another type":           {[]string{"*"}, false, `[*]`},
		"SUB-1 beside names":              {[]string{"a", "*"}, true, `[* a]`},
		"SUB-2 names only, full-state":    {[]string{"a"}, true, `[a]`},
		"SUB-2 names only, another type":  {[]string{"a"}, false, `[a]`},
		"GLOB-7 a glob is a name of ours": {[]string{"xdstp:///t/*"}, true, `[xdstp:///t/*]`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := start(t, inOrder(version("1")), func(c *PollerConfig, _ *owner) { c.Names, c.FullState = tt.names, tt.fullState })
				defer b.stop()
				b.after(time.Millisecond)
				b.wantAsked(`names=` + tt.want + ` version="" nonce=""`)
				b.wantTold("1 for " + tt.want)
			})
		})
	}
}

// TestSUB2_noNames: no names would be a wildcard, so nothing is asked.
func TestSUB2_noNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, inOrder(version("1"), notModified.held(time.Hour), version("3")), func(c *PollerConfig, _ *owner) { c.Names = nil })
		defer b.stop()
		b.after(time.Hour)
		b.wantAsked()
		b.poller.SetNames([]string{"a"})
		b.after(time.Minute)
		b.poller.SetNames(nil)
		b.after(2 * time.Hour)
		b.wantAsked(`names=[a] version="" nonce=""`, `names=[a] version="1" nonce="n1"`)
		if !b.server.seen()[1].given {
			t.Error("the held poll went on")
		}
		b.poller.SetNames([]string{"b"})
		b.after(time.Millisecond * 10)
		b.wantAsked(`names=[a] version="" nonce=""`, `names=[a] version="1" nonce="n1"`, `names=[b] version="unconfirmed" nonce=""`)
		b.wantTold("1 for [a]", "3 for [b]")
	})
}

// TestSUB10_restlessNames: a subscription that changes faster than the server
// answers still gets answers.
func TestSUB10_restlessNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, inOrder(version("1").held(patience/2)), func(c *PollerConfig, _ *owner) { c.Names = []string{"a"} })
		defer b.stop()
		for i := range 1000 {
			b.after(10 * time.Millisecond)
			b.poller.SetNames([]string{fmt.Sprint(i)})
		}
		if told := b.owner.heard(); len(told) < 15 {
			t.Errorf("%d answers in ten seconds: %q", len(told), told)
		}
		b.server.mu.Lock()
		defer b.server.mu.Unlock()
		for i, a := range b.server.polls {
			if a.given {
				t.Errorf("poll %d was given up", i)
			}
		}
	})
}

// TestSUB10_unansweredNames: a server may hold the first answer until the
// resources exist; new names get through all the same.
func TestSUB10_unansweredNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, inOrder(version("1").held(time.Hour)), func(c *PollerConfig, _ *owner) { c.Names = []string{"a"} })
		defer b.stop()
		b.after(100 * time.Millisecond)
		b.poller.SetNames([]string{"a", "b"})
		b.after(time.Minute)
		b.wantAsked(`names=[a] version="" nonce=""`, `names=[a b] version="" nonce=""`)
		if polls := b.server.seen(); !polls[0].given || polls[0].until != patience {
			t.Errorf("the first poll ended at %v", polls[0].until)
		}
		b.wantTold()
	})
}

// TestSUB5_newNamesWithoutAResource: a server that compares nonces, as a relay does, answers for
// names that it has nothing of. Otherwise nobody learns that it has answered for them.
func TestSUB5_newNamesWithoutAResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		relay := func(_ int, r *discoveryv3.DiscoveryRequest) reply {
			if r.GetVersionInfo() == "1" || r.GetResponseNonce() == "n1" {
				return notModified.held(time.Hour)
			}
			return version("1")
		}
		b := start(t, relay, func(c *PollerConfig, _ *owner) { c.Names = []string{"a"} })
		defer b.stop()
		b.after(time.Minute)
		b.poller.SetNames([]string{"a", "none"})
		b.after(time.Minute)
		b.wantTold("1 for [a]", "1 for [a none]")
		if polls := b.server.seen(); len(polls) != 4 || polls[3].String() != `names=[a none] version="1" nonce="n1"` {
			t.Errorf("polls %v", polls)
		}
	})
}

// TestACK2_newNamesAfterARejection: what is wrong with one resource keeps nobody
// from asking for others.
func TestACK2_newNamesAfterARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, inOrder(version("1"), notModified.held(time.Hour)), func(c *PollerConfig, o *owner) {
			c.Names, c.BackoffBase, c.BackoffMax = []string{"a"}, 1<<55, 1<<55
			o.reject = func(*Response) error { return errors.New(strings.Repeat("no way, ", 4000)) }
		})
		defer b.stop()
		b.after(time.Second)
		b.poller.SetNames([]string{"b"})
		b.after(time.Second)
		polls := b.server.seen()
		if len(polls) != 2 || polls[1].at != time.Second+DefaultBatch {
			t.Fatalf("polls %v", polls)
		}
		if detail := polls[1].request.GetErrorDetail().GetMessage(); len(detail) > 2*logs.ReasonBytes+64 || !strings.HasPrefix(detail, "no way, no") {
			t.Errorf("a detail of %d bytes", len(detail))
		}
	})
}

func TestPoller_stopsWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, inOrder(version("1").held(time.Hour)))
		b.after(time.Second)
		b.stop()
		b.wantTold()
		if polls := b.server.seen(); len(polls) != 1 || !polls[0].given || polls[0].until != time.Second {
			t.Errorf("polls %v", polls)
		}
		if err := b.poller.Run(t.Context()); !errors.Is(err, errRunning) {
			t.Errorf("a second Run: %v", err)
		}
	})
}

func TestNewPoller_errors(t *testing.T) {
	good := PollerConfig{
		Client: http.DefaultClient, Base: &url.URL{Scheme: "https", Host: "cp"}, TypeURL: resource.ClusterType,
		Interval: time.Second, Handler: new(owner),
	}
	for want, change := range map[string]func(*PollerConfig){
		"restjson: a poller needs an HTTP client":                             func(c *PollerConfig) { c.Client = nil },
		"restjson: a poller needs a handler":                                  func(c *PollerConfig) { c.Handler = nil },
		`restjson: the server must be an http or https URL, and is ""`:        func(c *PollerConfig) { c.Base = nil },
		`restjson: the server must be an http or https URL, and is "cp:8080"`: func(c *PollerConfig) { c.Base = &url.URL{Scheme: "cp", Opaque: "8080"} },
		`restjson: the server must be an http or https URL, and is "grpc://u:xxxxx@cp"`: func(c *PollerConfig) {
			c.Base = &url.URL{Scheme: "grpc", Host: "cp", User: url.UserPassword("u", hush)}
		},
		"restjson: the interval must be positive, and is 0s":                                      func(c *PollerConfig) { c.Interval = 0 },
		"restjson: back-off, batch and response limit must not be negative":                       func(c *PollerConfig) { c.Batch = -1 },
		`restjson: type "type.googleapis.com/envoy.config.route.v3.VirtualHost" cannot be polled`: func(c *PollerConfig) { c.TypeURL = resource.VirtualHostType },
	} {
		cfg := good
		change(&cfg)
		if p, err := NewPoller(cfg); p != nil || err == nil || err.Error() != want {
			t.Errorf("got %v, %v\nwant %s", p, err, want)
		}
	}
	if _, err := NewPoller(good); err != nil {
		t.Error(err)
	}
}
