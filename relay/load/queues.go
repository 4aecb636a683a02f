package load

import "time"

const (
	// joinsInRow is how many joins and polls have their turns before a new connection has, if both wait.
	joinsInRow = 4
	// helloStale is after which wait of a connection those that came last go first, whose clients are certainly
	// there: the clients' own limits are not known.
	helloStale = time.Second
)

// queues are the works that wait for a place. The lock of the places guards them.
type queues struct {
	begun  queue // rests of handshakes: they go first
	hellos queue // handshakes that begin
	joins  queue
	polls  queue
	polled bool // a poll had the last turn of joins and polls
	inRow  int  // joins and polls that had their turns since the last hello
}

// waiting is how many wait.
func (q *queues) waiting() int { return q.begun.n + q.hellos.n + q.joins.n + q.polls.n }

// before is about how many have their turn before one who would come to the queue of joins or polls now. These two
// take turns.
func (q *queues) before(of *queue, from From) int {
	n := of.before(from)
	if of == &q.joins {
		return n + min(n, q.polls.n)
	}
	return n + min(n, q.joins.n)
}

// next takes whose turn it is out of its queue; nil: nobody waits. What has begun is finished first: the
// rests of handshakes, and then the joins of those that are connected. New connections have every fifth turn
// beside these, so that nobody keeps them out with streams.
func (q *queues) next() *waiter {
	if w := q.begun.first(); w != nil {
		return w
	}
	if q.inRow < joinsInRow || q.hellos.n == 0 {
		if w := q.request(); w != nil {
			q.inRow++
			return w
		}
	}
	q.inRow = 0
	return q.hello()
}

// request takes the next join or poll out of its queue, in turn.
func (q *queues) request() *waiter {
	if q.polls.n > 0 && (q.joins.n == 0 || !q.polled) {
		q.polled = true
		return q.polls.first()
	}
	q.polled = false
	return q.joins.first()
}

// hello takes the connection that is to begin its handshake out of the queue.
func (q *queues) hello() *waiter {
	if oldest := q.hellos.oldest(); oldest != nil && time.Since(oldest.came) > helloStale {
		return q.hellos.last()
	}
	return q.hellos.first()
}
