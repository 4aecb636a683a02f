package demo

import (
	"fmt"
	"strings"
	"time"
)

// Summary is what came of it.
type Summary struct {
	Converged   bool    `json:"converged"`   // every client holds exactly what the control plane has
	Interrupted bool    `json:"interrupted"` // it was ended early
	Seconds     float64 `json:"seconds"`

	Clients     ClientSummary   `json:"clients"`
	Upstream    UpstreamSummary `json:"upstream"`
	Delivered   Delivered       `json:"delivered"`
	FanOut      float64         `json:"fan_out"` // resources delivered for each received upstream
	Updates     int             `json:"updates"` // by the control plane while it served
	Propagation Times           `json:"propagation"`
	Outage      Outage          `json:"outage"`
	// Differences are the first of what clients hold and should not, or the other
	// way round.
	Differences []Difference `json:"differences"`
}

// ClientSummary is about the clients.
type ClientSummary struct {
	Total         int `json:"total"`
	Converged     int `json:"converged"`
	Subscriptions int `json:"subscriptions"`
	StreamsLost   int `json:"streams_lost"` // streams to the relay that broke
}

// UpstreamSummary is what the control plane saw of the relay.
type UpstreamSummary struct {
	Streams       int `json:"streams"`        // the most at a time
	StreamsOpened int `json:"streams_opened"` // in total
	Subscriptions int `json:"subscriptions"`  // the most at a time
	Resources     int `json:"resources"`      // sent to the relay
	Removed       int `json:"removed"`
}

// Delivered is what the clients received.
type Delivered struct {
	Resources   int `json:"resources"`
	Removed     int `json:"removed"`
	Bytes       int `json:"bytes"`
	Unrequested int `json:"unrequested"` // resources that nobody had asked for; 0 is right
}

// Outage is about the time without a control plane. Times are 0 if it did not
// come to that.
type Outage struct {
	Seconds  float64 `json:"seconds"`
	Joined   int     `json:"joined"`           // clients that came meanwhile and got all they asked for
	Start    Times   `json:"start"`            // how long each of them took
	Recovery float64 `json:"recovery_seconds"` // from the return until all clients had its state
}

// Times is a distribution in milliseconds.
type Times struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Max   float64 `json:"max_ms"`
}

func timesOf(h *histogram) Times {
	d := h.now()
	return Times{Count: int(d.total), P50: milliseconds(d.quantile(0.5)), P99: milliseconds(d.quantile(0.99)), Max: milliseconds(d.max)}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// maxDifferences is how many are listed: the first say what kind it is.
const maxDifferences = 20

// sumUp gives the summary; rest are the clients that do not hold the truth.
func (d *demo) sumUp(rest []*client, t truth) *Summary {
	stats := d.look()
	f := d.fleet
	d.mu.Lock()
	most := d.upstream
	d.mu.Unlock()
	s := &Summary{
		Converged: len(rest) == 0,
		Seconds:   time.Since(d.began).Seconds(),
		Clients: ClientSummary{
			Total: len(f.clients), Converged: len(f.clients) - len(rest),
			Subscriptions: f.subscriptions(), StreamsLost: int(f.lost.Load()),
		},
		Upstream: UpstreamSummary{
			Streams: most.streams, StreamsOpened: stats.Opened, Subscriptions: most.subscriptions,
			Resources: stats.Resources, Removed: stats.Removed,
		},
		Delivered: Delivered{
			Resources: int(f.resources.Load()), Removed: int(f.removed.Load()),
			Bytes: int(f.bytes.Load()), Unrequested: int(f.unrequested.Load()),
		},
		Updates:     int(d.world.updates.Load()),
		Propagation: timesOf(&f.propagation),
		Outage: Outage{
			Seconds: d.away.Seconds(), Joined: int(f.joined.Load()),
			Start: timesOf(&f.start), Recovery: d.recovery.Seconds(),
		},
		Differences: []Difference{},
	}
	s.FanOut = ratio(s.Delivered.Resources, s.Upstream.Resources)
	for _, c := range rest {
		all := c.differences(t)
		room := maxDifferences - len(s.Differences)
		s.Differences = append(s.Differences, all[:min(room, len(all))]...)
	}
	return s
}

// String gives the summary for people, in lines that end with a newline.
func (s *Summary) String() string {
	var b strings.Builder
	row := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-*s%s\n", labelWidth, label, fmt.Sprintf(format, args...))
	}
	ending := ""
	if s.Interrupted {
		ending = ", interrupted"
	}
	fmt.Fprintf(&b, "Summary after %.0f s%s\n", s.Seconds, ending)
	row("clients", "%s, %s hold exactly what the control plane has", count(s.Clients.Total), all(s.Clients.Converged, s.Clients.Total))
	row("upstream", "%s at a time, %s instead of %s",
		plural(s.Upstream.Streams, "stream"), plural(s.Upstream.Subscriptions, "upstream subscription"), count(s.Clients.Subscriptions))
	row("fan-out", "%.1f: %s resources delivered for %s received", s.FanOut, count(s.Delivered.Resources), count(s.Upstream.Resources))
	row("propagation", "%s (%s)", s.Propagation, plural(s.Propagation.Count, "delivery"))
	if o := s.Outage; o.Seconds > 0 {
		row("outage", "%.1f s without a control plane", o.Seconds)
		row("joined", "%s, complete in %s", plural(o.Joined, "client"), o.Start)
		if o.Recovery > 0 {
			row("recovery", "all clients had the changes %s after the return", short(time.Duration(o.Recovery*float64(time.Second))))
		}
	}
	if n := s.Clients.StreamsLost; n > 0 {
		row("lost", "%s to the relay broke", plural(n, "stream"))
	}
	if n := s.Delivered.Unrequested; n > 0 {
		row("unrequested", "%s reached clients that had not asked for it", plural(n, "resource"))
	}
	for _, d := range s.Differences {
		row("difference", "%s", d)
	}
	return b.String()
}

// String gives the times for people.
func (t Times) String() string {
	in := func(ms float64) string { return short(time.Duration(ms * float64(time.Millisecond))) }
	if t.Count == 0 {
		return "no times"
	}
	return fmt.Sprintf("p50 %s, p99 %s, max %s", in(t.P50), in(t.P99), in(t.Max))
}

func all(n, of int) string {
	if n == of {
		return "all"
	}
	return "only " + count(n)
}
