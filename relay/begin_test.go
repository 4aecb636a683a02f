package relay

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/load"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// invented are scopes that one client begins, each with a subscription to everything.
type invented struct {
	sessions []*session
	clients  []*delivery.Place
}

func invent(t *testing.T, h *hub, n int) *invented {
	t.Helper()
	who := keyer.Peer{Addr: "192.0.2.1:1"}
	all := begin(t, h, n, claim{from: quota.ClientOf(&who), addr: who.Addr})
	for _, s := range all.sessions {
		all.clients = append(all.clients, follow(s))
	}
	return all
}

// begin has scopes begin of which nothing is wanted yet.
func begin(t *testing.T, h *hub, n int, who claim) *invented {
	t.Helper()
	var all invented
	for i := range n {
		s, err := h.acquire(who, sessionKey{plane: "plane", of: h.planes["plane"], scope: fmt.Sprint(i)}, asItself, nil)
		if err != nil {
			t.Fatal(err)
		}
		all.sessions = append(all.sessions, s)
	}
	return &all
}

// follow has a client subscribe to everything.
func follow(s *session) *delivery.Place {
	c := delivery.Join(s.store, func() {}, delivery.Form{})
	c.Update(&delivery.Change{TypeURL: clusterType, Subscribe: []cache.Name{{Spelling: "*", Key: "*"}}})
	return c
}

// leave has all clients go.
func (all *invented) leave(h *hub) {
	for i, s := range all.sessions {
		all.clients[i].Leave()
		h.release(s)
	}
}

// asked counts the scopes whose control plane was asked.
func (all *invented) asked() (n int) {
	for _, s := range all.sessions {
		if s.client.Status().Opened > 0 {
			n++
		}
	}
	return n
}

// Who begins hundreds of scopes at once has their control plane asked by and by, and keeps neither the scope of all clients
// nor another client's waiting behind them.
func TestHubScopesBeginByAndBy_LIM1_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scopes = 300
		h := testHub(t, false)
		h.admission = load.NewAdmission(nil, nil)
		all := invent(t, h, scopes)
		shared, err := h.acquire(claim{}, sessionKey{plane: "plane", of: h.planes["plane"]}, asItself, nil)
		if err != nil {
			t.Fatal(err)
		}
		other, err := h.acquire(claim{addr: "192.0.2.2:1"}, sessionKey{plane: "plane", of: h.planes["plane"], scope: "other"}, asItself, nil)
		if err != nil {
			t.Fatal(err)
		}
		clients := []*delivery.Place{follow(shared), follow(other)}
		synctest.Wait()
		if n := all.asked(); n == 0 || n >= scopes/2 {
			t.Errorf("%d of %d scopes have asked at once", n, scopes)
		}
		pass(time.Second / 5) // streams to a control plane that has not answered yet come one by one
		if shared.client.Status().Opened == 0 {
			t.Error("the scope of all clients waits")
		}
		pass(time.Second / 2)
		if other.client.Status().Opened == 0 {
			t.Errorf("another client's scope waits, after %d of the first client's", all.asked())
		}
		pass(time.Minute)
		if n := all.asked(); n != scopes {
			t.Errorf("%d of %d scopes have asked", n, scopes)
		}
		all.leave(h)
		for i, s := range []*session{shared, other} {
			clients[i].Leave()
			h.release(s)
		}
	})
}

// The scopes of a client that leaves before their turn end, and no control plane is asked for them.
func TestHubScopesThatLeave_LIM2_LIM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scopes = 300
		h := testHub(t, false)
		h.admission = load.NewAdmission(nil, nil)
		h.linger = 0
		all := invent(t, h, scopes)
		synctest.Wait()
		asked := all.asked()
		for _, s := range all.sessions {
			s.stop() // as the hub does after a linger
			<-s.done
		}
		if n := all.asked(); n != asked {
			t.Errorf("%d scopes had asked before they ended, %d have", asked, n)
		}
		if n := h.admission.Status().Waiting[load.Scope]; n != 0 {
			t.Errorf("%d scopes wait that have ended", n)
		}
		all.leave(h)
	})
}

// A scope that waits for its turn serves what its snapshot had, no longer than for the ttl.
func TestHubScopesThatWait_TTL2_SUR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scopes, ttl = 300, 10 * time.Millisecond
		h := testHub(t, false)
		h.admission = load.NewAdmission(nil, nil)
		all := invent(t, h, scopes)
		synctest.Wait()
		who := keyer.Peer{Addr: "192.0.2.1:1"}
		last, err := h.acquire(claim{from: quota.ClientOf(&who), addr: who.Addr}, sessionKey{plane: "plane", of: h.planes["plane"], scope: "last"}, asItself, nil)
		if err != nil {
			t.Fatal(err)
		}
		sent, err := wire.NewResource(&discovery.Resource{Name: "x", Version: "1", Resource: &anypb.Any{TypeUrl: clusterType}})
		if err != nil {
			t.Fatal(err)
		}
		res, err := wire.Restore(sent.Raw(), ttl)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		last.store.Snapshots().Restore(&cache.Image{Tables: []cache.TableImage{{
			TypeURL: clusterType, Kind: cache.WholeType, Collections: []string{cache.Wildcard},
			Resources: []cache.ResourceImage{{Resource: res, Received: now, Deadline: now.Add(ttl)}},
		}}}, now)
		if n, _ := last.store.Snapshots().Restored(); n != 1 {
			t.Fatalf("%d resources are restored", n)
		}
		pass(2 * ttl)
		if h.admission.Status().Waiting[load.Scope] == 0 {
			t.Fatal("the scope does not wait")
		}
		if n, _ := last.store.Snapshots().Restored(); n != 0 {
			t.Error("TTL-2: the resource is served after its ttl")
		}
		h.release(last)
		all.leave(h)
	})
}

// A scope that waits for its turn says so, and since when. One of which nothing is wanted neither waits nor takes
// a turn: a stream that a reload leads elsewhere looks at its next scope before it ends.
func TestHubScopesShowThatTheyWait_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scopes = 300
		h := testHub(t, false)
		h.admission = load.NewAdmission(nil, nil)
		looked := begin(t, h, scopes, claim{kind: moved})
		synctest.Wait()
		if n := h.admission.Status().Waiting[load.Scope]; n != 0 {
			t.Errorf("%d scopes wait of which nothing is wanted", n)
		}
		came := time.Now()
		for _, s := range looked.sessions {
			looked.clients = append(looked.clients, follow(s))
		}
		synctest.Wait()
		count := func() (n int) {
			for _, s := range looked.sessions {
				if st := s.client.Status(); st.State == upstream.StateWaiting {
					n++
					if !st.Since.Equal(came) {
						t.Fatalf("a scope waits since %v, want %v", st.Since, came)
					}
				}
			}
			return n
		}
		if n, waiting := count(), h.admission.Status().Waiting[load.Scope]; n == 0 || n != waiting {
			t.Errorf("%d scopes say that they wait, %d do", n, waiting)
		}
		pass(time.Minute)
		if n := count(); n != 0 || looked.asked() != scopes {
			t.Errorf("%d scopes say that they wait, %d of %d have asked", n, looked.asked(), scopes)
		}
		looked.leave(h)
	})
}
