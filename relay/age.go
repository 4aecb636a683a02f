package relay

import (
	"context"
	"hash/maphash"
	"math"
	"net/http"
	"time"

	"google.golang.org/grpc/keepalive"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// ages has connections of clients reach an age (SUR-4): clients that come back spread over all relays, so
// that a relay that was started last gets its share.
//
// A connection's streams end between responses, and only the stream's owner knows when that is. gRPC says
// GOAWAY, so that the client opens its next stream on another connection, and would cut the streams off
// at once or at a fixed time after. So gRPC says it before the streams' time comes, and cuts off only
// what is left long after.
type ages struct {
	most time.Duration // the mean; 0: connections have no greatest age
	seed maphash.Seed
}

func newAges(most time.Duration) ages { return ages{most, maphash.MakeSeed()} }

// Parts of the greatest age. gRPC spreads its own by a tenth, as the relay does: at 0.8 of the age GOAWAY
// goes at 0.72 to 0.88, and streams end at 0.9 to 1.1.
const (
	ageSpread  = 0.1
	goAwayPart = 0.8
	cutOffPart = 0.5 // after GOAWAY
	// cutOffMore is more than a stream may go on (downstream.Server.Retire), twice.
	cutOffMore = 10 * time.Minute
	// ageRounds is how many times in the greatest age the relay looks at all streams: those that have
	// come together do not end together.
	ageRounds           = 600
	shortestAgeInterval = 100 * time.Millisecond
)

// keepalive gives what gRPC does with connections.
func (a ages) keepalive(k config.Keepalive) keepalive.ServerParameters {
	p := keepalive.ServerParameters{Time: orNever(k.Time), Timeout: k.Timeout.Std(), MaxConnectionIdle: idleTime}
	if a.most > 0 {
		p.MaxConnectionAge = part(a.most, goAwayPart)
		p.MaxConnectionAgeGrace = part(a.most, cutOffPart) + cutOffMore
	}
	return p
}

// idleTime is how long a connection may be without a stream or a poll: longer than clients pause that
// poll, so that they need not open one for each.
const idleTime = 5 * time.Minute

func part(d time.Duration, of float64) time.Duration { return time.Duration(float64(d) * of) }

// old reports whether the connection of a stream or poll, by its context, has reached its age. The
// age is another one for each connection, and the same for all of a connection's streams.
func (a ages) old(ctx context.Context) bool {
	client := identity.ClientOf(ctx)
	if a.most == 0 || client == nil {
		return false
	}
	random := float64(maphash.Comparable(a.seed, client)) / math.MaxUint64
	return time.Since(client.Since) >= part(a.most, 1-ageSpread+2*ageSpread*random)
}

// retire has streams end whose connections are old, until ctx ends.
func (r *Relay) retire(ctx context.Context) {
	if r.ages.most == 0 {
		return
	}
	retry.Every(ctx, max(r.ages.most/ageRounds, shortestAgeInterval), func(time.Time) {
		r.server.Retire(r.ages.old)
		old := func(ctx context.Context) error {
			if r.ages.old(ctx) {
				return downstream.ErrRetired
			}
			return nil
		}
		r.reports.End(old)
		r.passage.End(old)
	})
}

// poll stands before the handler of polls: the answer to a poll is the last on an old connection.
func (a ages) poll(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.old(r.Context()) {
			w.Header().Set("Connection", "close") // over HTTP/2 it is a GOAWAY
		}
		next.ServeHTTP(w, r)
	})
}
