package upstream

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// endpoint is one entry of Config.Endpoints: a server, or a name for several.
type endpoint struct {
	// Immutable after newEndpoint.
	priority   int
	target     string        // as configured
	host, port string        // of a name that is looked up; host is "" if target is dialled as it is
	wake       chan struct{} // one slot: look the name up now

	// Guarded by replicas.mu.
	replicas []*replica           // never empty
	looked   bool                 // the first look-up is over
	six      bool                 // the addresses in use are IPv6
	answered time.Time            // when the last answer came
	rotated  time.Time            // when an address came back last that answers had left out
	left     map[string]time.Time // addresses that left not long ago, and when an answer had them last

	pace pace // guarded by pool.mu: of the connections that are made from now on (UPS-1)
}

// replica is one server of an endpoint: one address of its name, or the endpoint itself
// where that is no name. A name is a replica too until it was looked up.
type replica struct {
	// Immutable after newReplica.
	endpoint *endpoint
	address  string  // the address to dial
	name     string  // for operators
	answers  answers // has a lock of its own

	// Guarded by replicas.mu.
	joined uint64    // replicas.changes when it came, or came into use
	seen   time.Time // when an answer had it last
	six    bool      // the address is IPv6
	homes  int       // sessions that have it as their home
	failed time.Time // when it was last found unreachable, zero if it was reached since
}

// newEndpoint reads an entry of Config.Endpoints. byName reports whether the dialer looks a
// host up by itself: then it is one replica.
func newEndpoint(priority int, target string, byName func(target string) bool) *endpoint {
	e := &endpoint{priority: priority, target: target, wake: notify.New(), looked: true}
	if host, port, ok := lookedUp(target); ok && (byName == nil || !byName(target)) {
		e.host, e.port, e.looked = host, port, false
	}
	e.replicas = []*replica{newReplica(e, target)}
	return e
}

func newReplica(e *endpoint, address string) *replica {
	x := &replica{endpoint: e, address: address, name: e.target}
	if address != e.target {
		host, _, _ := net.SplitHostPort(address)
		x.name = e.target + " (" + host + ")"
	}
	return x
}

// lookedUp splits host:port, if the host is a name. gRPC's targets with a scheme are none.
func lookedUp(target string) (host, port string, ok bool) {
	host, port, err := net.SplitHostPort(target)
	if err != nil || host == "" {
		return "", "", false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", "", false
	}
	_, err = netip.ParseAddr(host)
	return host, port, err != nil
}

// provisional reports whether a replica is a name that was not looked up yet.
func (r *replica) provisional() bool { return r.endpoint.host != "" && r.address == r.endpoint.target }

// rotation is how long an address may be missing in the answers of a name that gives only some
// of its addresses with each. A name counts as one of those for so long after an address came
// back.
const rotation = 5 * time.Minute

// set takes up the addresses of the name, of which there is one at least. It reports whether
// they are others than before. changes is the value of joined for new replicas. The
// caller holds replicas.mu.
func (e *endpoint) set(addresses []netip.Addr, changes uint64) (changed bool) {
	was, at := make(map[string]*replica, len(e.replicas)), time.Now()
	for _, x := range e.replicas {
		was[x.address] = x
	}
	var now []*replica
	for _, a := range addresses {
		address := net.JoinHostPort(a.Unmap().String(), e.port)
		if slices.ContainsFunc(now, func(x *replica) bool { return x.address == address }) {
			continue
		}
		x := was[address]
		delete(was, address)
		if x == nil {
			x, changed = newReplica(e, address), true
			x.six, x.joined = a.Unmap().Is6(), changes
			x.seen = e.left[address]
		}
		if !x.seen.IsZero() && x.seen.Before(e.answered) {
			e.rotated = at
		}
		x.seen = at
		now = append(now, x)
	}
	fresh, rotates := e.replicas[0].provisional(), at.Sub(e.rotated) < rotation
	for _, x := range was {
		if rotates && at.Sub(x.seen) < rotation {
			now = append(now, x)
			continue
		}
		changed = true
		e.leave(x, at)
	}
	e.replicas, e.answered = now, at
	if fresh {
		e.six = now[0].six
	} else if !slices.ContainsFunc(now, (*replica).used) {
		e.turn(changes)
	}
	return changed
}

// turn takes the addresses of the other IP version into use. The caller holds replicas.mu.
func (e *endpoint) turn(changes uint64) {
	e.six = !e.six
	for _, x := range e.replicas {
		if x.used() {
			x.joined = changes
		}
	}
}

// used reports whether a replica is one of those in use. The addresses of the other IP version
// are spare. The caller holds replicas.mu.
func (r *replica) used() bool { return r.six == r.endpoint.six }

// outdone reports whether a spare replica was reached, and none of those in use could be: a
// name may have an address that its server does not listen on, or that no route leads to. The
// caller holds replicas.mu.
func (r *replica) outdone() bool {
	return !r.used() && !slices.ContainsFunc(r.endpoint.replicas, func(o *replica) bool { return o.used() && o.failed.IsZero() })
}

// leave remembers for a while that an address has left.
func (e *endpoint) leave(x *replica, at time.Time) {
	if e.left == nil {
		e.left = make(map[string]time.Time)
	}
	maps.DeleteFunc(e.left, func(_ string, seen time.Time) bool { return at.Sub(seen) >= rotation })
	e.left[x.address] = x.seen
}

// preferred sorts replicas by how much a session prefers each of them: rendezvous hashing. So
// one that leaves or joins concerns only the sessions that prefer it.
func preferred(list []*replica, key string) {
	weights := make(map[*replica]uint64, len(list))
	for _, x := range list {
		sum := sha256.Sum256([]byte(key + "\x00" + x.address))
		weights[x] = binary.BigEndian.Uint64(sum[:])
	}
	slices.SortStableFunc(list, func(a, b *replica) int { return cmp.Compare(weights[b], weights[a]) })
}

// home chooses the replica that serves a session as long as it can be reached, of those of
// one priority in the order in which the session prefers them. was is the home until now, nil
// if there was none, and seen the count of changes when it was chosen. A session stays at
// home unless a replica has joined that it prefers. No replica becomes the home of more than
// its share.
func home(list []*replica, was *replica, seen uint64) *replica {
	stays, sessions := slices.Contains(list, was), 0
	for _, x := range list {
		sessions += x.homes
	}
	if !stays {
		sessions++
	}
	most := share(sessions, len(list))
	for _, x := range list {
		if x == was || x.homes < most && (!stays || x.joined > seen) {
			return x
		}
	}
	return list[0] // never: one has less than its share
}

// share is the most sessions that one of so many replicas is the home of: a tenth more than
// if all had the same number. A hash alone often gives most of a few sessions to one replica.
func share(sessions, replicas int) int { return (11*sessions + 10*replicas - 1) / (10 * replicas) }
