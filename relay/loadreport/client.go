package loadreport

import (
	"slices"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// Client is one that reports. Report is called by one goroutine.
type Client struct {
	scope  *Scope
	node   string            // of the log
	allows func(string) bool // whether the client may have a cluster (ACC-2); nil: it may have all

	// guarded by scope.mu
	round    uint64 // of the sums that marks and taken are of
	marks    marks
	taken    int64
	underWay underWay

	complained bool // the log says that entries were left out
}

// Report adds a report to the sums: all of it, but for entries beyond the limits, or nothing.
// The error is a status that ends the stream.
func (c *Client) Report(r *loadv3.LoadStatsRequest) error {
	s := c.scope
	c.leaveOut(r)
	w, err := check(r.GetClusterStats())
	if err != nil {
		s.observer.Refused(RefusedInvalid)
		s.log.Warn("refused a load report", "node", c.node, "error", err)
		return err
	}
	dropped, ok := c.add(r, w)
	if !ok {
		s.observer.Refused(RefusedOverflow)
		s.log.Warn("refused a load report", "node", c.node, "error", errOverflow)
		return errOverflow
	}
	s.observer.Received()
	for reason, n := range dropped {
		s.observer.Dropped(reason, n)
	}
	if len(dropped) > 0 && !c.complained {
		c.complained = true
		s.log.Warn("entries of load reports are beyond the limits, and left out", "node", c.node, "entries", dropped)
	}
	return nil
}

// leaveOut leaves clusters out of a report that the client may not have.
func (c *Client) leaveOut(r *loadv3.LoadStatsRequest) {
	if c.allows == nil {
		return
	}
	all := len(r.GetClusterStats())
	r.ClusterStats = slices.DeleteFunc(r.GetClusterStats(), func(s *endpointv3.ClusterStats) bool { return !c.allows(s.GetClusterName()) })
	if n := all - len(r.GetClusterStats()); n > 0 {
		c.scope.observer.Dropped(DroppedDenied, n)
	}
}

// told is what the client is told of an answer: no cluster that it may not have.
func (c *Client) told(a *answer) *loadv3.LoadStatsResponse {
	denied := func(name string) bool { return c.allows != nil && !c.allows(name) }
	if !slices.ContainsFunc(a.response.GetClusters(), denied) {
		return a.response
	}
	response := proto.CloneOf(a.response)
	response.Clusters = slices.DeleteFunc(response.GetClusters(), denied)
	return response
}

func (c *Client) add(r *loadv3.LoadStatsRequest, w weight) (dropped map[Dropped]int, ok bool) {
	s := c.scope
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sums.admit(w) {
		return nil, false
	}
	if c.round != s.sums.round {
		c.round, c.taken = s.sums.round, 0
		c.marks = nil
	}
	by := reporter{marks: &c.marks, taken: &c.taken, scope: &s.room, bytes: &s.sums.bytes}
	for _, stats := range r.GetClusterStats() {
		s.sums.add(stats, &by)
	}
	for reason, n := range s.gauges.replace(&c.underWay, r.GetClusterStats(), &s.room) {
		for range n {
			by.drop(reason)
		}
	}
	return by.dropped, true
}

// Leave takes a client out. What it reported stays.
func (c *Client) Leave() {
	s := c.scope
	s.mu.Lock()
	s.gauges.leave(&c.underWay, &s.room)
	s.clients--
	if s.clients == 0 {
		s.leftAt = time.Now()
	}
	s.mu.Unlock()
	s.observer.Left()
	notify.Signal(s.wake)
}

// answer is what the client is told, nil as long as that is not known, and what tells when
// that changes. The error is a status that ends the stream.
func (c *Client) answer() (a *answer, changed <-chan struct{}, err error) {
	s := c.scope
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer, s.changed, s.failure
}

// refused counts a client whose stream ended because the control plane has no such service.
func (c *Client) refused() { c.scope.observer.Refused(RefusedUnserved) }
