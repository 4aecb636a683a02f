package loadreport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// rig has scopes of one upstream, in a synctest bubble.
type rig struct {
	t      *testing.T
	all    *Scopes
	gate   *Gate
	counts *counted
	stop   context.CancelFunc
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	o := newCounts()
	return &rig{t: t, all: NewScopes(ctx), gate: NewGate(o), counts: o, stop: stop}
}

func (r *rig) scope() (*Scope, *fakeSource) {
	f := new(fakeSource)
	return r.all.NewScope(f, r.gate, r.counts, slog.New(slog.DiscardHandler)), f
}

// bubble runs a test in one, and ends its scopes.
func bubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		f(r)
		r.stop()
		r.all.Wait(context.Background())
	})
}

func (r *rig) join(s *Scope) *Client {
	r.t.Helper()
	c := join(r.t, s)
	synctest.Wait()
	return c
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *fakeStream) answer(r *loadv3.LoadStatsResponse) {
	s.answers <- r
	synctest.Wait()
}

// every asks for all clusters.
func every(d time.Duration) *loadv3.LoadStatsResponse {
	return &loadv3.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(d)}
}

// issued is a report of requests in one locality of one cluster.
func issued(n uint64) *loadv3.LoadStatsRequest {
	r := oneLocality(&endpointv3.UpstreamLocalityStats{TotalIssuedRequests: n})
	r.ClusterStats[0].LoadReportInterval = durationpb.New(10 * time.Second)
	return r
}

func report(t *testing.T, c *Client, n uint64) {
	t.Helper()
	if err := c.Report(issued(n)); err != nil {
		t.Fatal(err)
	}
}

// sums are the requests of each report of a stream but the first, which has only the node.
func (s *fakeStream) sums() []uint64 {
	var all []uint64
	for i, r := range s.reports() {
		if i == 0 {
			continue
		}
		var n uint64
		for _, c := range r.GetClusterStats() {
			for _, l := range c.GetUpstreamLocalityStats() {
				n += l.GetTotalIssuedRequests()
			}
		}
		all = append(all, n)
	}
	return all
}

func wantSums(t *testing.T, s *fakeStream, want ...uint64) {
	t.Helper()
	got := s.sums()
	if len(got) != len(want) {
		t.Fatalf("reports %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("reports %v, want %v", got, want)
		}
	}
}

// One stream for all clients of a scope: it is opened with the first client, with the node and
// nothing else, reports at the server's interval from its first answer on, and ends with the
// last client, after the last report.
func TestOneStream_LRS1(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		a, b := r.join(s), r.join(s)
		if n := len(plane.streams()); n != 1 {
			t.Fatalf("%d streams for two clients", n)
		}
		up := plane.last()
		first := up.reports()
		if len(first) != 1 || first[0].GetNode().GetId() != "relay" || len(first[0].GetClusterStats()) != 0 {
			t.Fatalf("first request %v", first)
		}
		if f := first[0].GetNode().GetClientFeatures(); len(f) != 1 || f[0] != supportsAll {
			t.Errorf("features %q", f)
		}
		pass(time.Minute)
		wantSums(t, up)
		up.answer(every(10 * time.Second))
		report(t, a, 1)
		report(t, b, 2)
		pass(9 * time.Second)
		wantSums(t, up)
		pass(time.Second)
		wantSums(t, up, 3)
		report(t, b, 4)
		b.Leave()
		pass(10 * time.Second)
		wantSums(t, up, 3, 4)
		pass(10 * time.Second)
		wantSums(t, up, 3, 4, 0)
		report(t, a, 5)
		a.Leave()
		synctest.Wait()
		wantSums(t, up, 3, 4, 0, 5)
		if !up.ended() || plane.held != 0 {
			t.Errorf("the stream ended: %v; the source is held by %d", up.ended(), plane.held)
		}
		if now := r.counts.get(); now.clients != 0 || now.open != 0 || now.received != 4 || now.sent != 4 || now.failed != 0 || len(now.dropped) != 0 {
			t.Errorf("counted %+v", now)
		}
	})
}

// The server's words reach all clients, those who come later too, and are not repeated.
func TestAnswers_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		a := r.join(s)
		if told, _, _ := a.answer(); told != nil {
			t.Fatalf("told %v before the server has said anything", told)
		}
		up := plane.last()
		up.answer(&loadv3.LoadStatsResponse{
			Clusters: []string{"a", "b"}, LoadReportingInterval: durationpb.New(3 * time.Second), ReportEndpointGranularity: true,
		})
		told, changed, _ := a.answer()
		if got := told.response; len(got.GetClusters()) != 2 || got.GetLoadReportingInterval().AsDuration() != 3*time.Second || !got.GetReportEndpointGranularity() {
			t.Errorf("told %v", got)
		}
		if later, _, _ := r.join(s).answer(); later != told {
			t.Errorf("a later client is told %v", later)
		}
		up.answer(told.response)
		select {
		case <-changed:
			t.Error("the same is told again")
		default:
		}
		up.answer(every(time.Second))
		if told, _, _ := a.answer(); !told.response.GetSendAllClusters() || told.interval != time.Second {
			t.Errorf("told %v", told)
		}
		pass(time.Second) // the relay's own interval has changed too
		wantSums(t, up, 0)
	})
}

// An interval of 0 is never sent, nor one that an Envoy takes for it.
func TestInterval_LRS2(t *testing.T) {
	for name, tc := range map[string]struct {
		given *durationpb.Duration
		want  time.Duration
	}{
		"none": {nil, defaultInterval}, "zero": {durationpb.New(0), defaultInterval}, "negative": {durationpb.New(-time.Second), defaultInterval},
		"malformed": {&durationpb.Duration{Seconds: 1, Nanos: -1}, defaultInterval}, "too short": {durationpb.New(1), minInterval},
		"an hour": {durationpb.New(time.Hour), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			given := &loadv3.LoadStatsResponse{LoadReportingInterval: tc.given}
			a := answerOf(given)
			if got := a.response.GetLoadReportingInterval().AsDuration(); got != tc.want || a.interval != tc.want {
				t.Errorf("told %v, and goes by %v", got, a.interval)
			}
		})
	}
}

// What was not sent before the stream broke goes with the next one, and what was sent does
// not. Clients that are there are told nothing of it.
func TestStreamBreaks_LRS1(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		c := r.join(s)
		up := plane.last()
		up.answer(every(10 * time.Second))
		report(t, c, 1)
		pass(10 * time.Second)
		report(t, c, 2)
		plane.fail(errBroken)
		up.end(errBroken)
		synctest.Wait()
		report(t, c, 4)
		pass(5 * time.Minute)
		if _, _, err := c.answer(); err != nil {
			t.Fatalf("the client's stream ended: %v", err)
		}
		plane.fail(nil)
		pass(retryMax + time.Second)
		again := plane.last()
		wantSums(t, up, 1)
		again.answer(every(10 * time.Second))
		report(t, c, 8)
		pass(10 * time.Second)
		wantSums(t, again, 14)
		if got := again.reports()[1].GetClusterStats()[0].GetLoadReportInterval().AsDuration(); got != 30*time.Second {
			t.Errorf("interval %v, want that of three reports", got)
		}
		if now := r.counts.get(); now.failed < 10 || now.failed > 100 {
			t.Errorf("%d attempts failed in five minutes", now.failed)
		}
	})
}

// A report that the stream does not take stays, whatever was reported meanwhile.
func TestSendFails_LRS1(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		c := r.join(s)
		up := plane.last()
		up.answer(every(10 * time.Second))
		report(t, c, 1)
		up.set(func() { up.refuse = true })
		pass(10*time.Second + closeTime + time.Minute)
		again := plane.last()
		if again == up {
			t.Fatal("no other stream")
		}
		again.answer(every(10 * time.Second))
		pass(10 * time.Second)
		wantSums(t, again, 1)
	})
}

// Clients that left while the control plane was away are not forgotten: for a minute the relay
// tries, and later it still has what they said for when somebody comes.
func TestLeftWhileAway_LRS1(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		c := r.join(s)
		plane.last().answer(every(10 * time.Second))
		report(t, c, 1)
		plane.fail(errBroken)
		plane.last().end(errBroken)
		synctest.Wait()
		c.Leave()
		pass(30 * time.Second)
		plane.fail(nil)
		pass(retryMax)
		up := plane.last()
		wantSums(t, up) // it was not asked yet
		up.answer(every(10 * time.Second))
		pass(standsFor)
		wantSums(t, up, 1)

		c = r.join(s)
		plane.last().answer(every(10 * time.Second))
		report(t, c, 2)
		plane.fail(errBroken)
		plane.last().end(errBroken)
		synctest.Wait()
		c.Leave()
		pass(lastTry + retryMax + time.Second)
		n := len(plane.streams())
		pass(time.Hour)
		if plane.held != 0 || len(plane.streams()) != n {
			t.Errorf("the relay still tries, with nobody there")
		}
		plane.fail(nil)
		r.join(s)
		pass(retryMax)
		plane.last().answer(every(10 * time.Second))
		pass(10 * time.Second)
		wantSums(t, plane.last(), 2)
	})
}

// What cannot be sent any more is counted.
func TestClose_LRS1(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		plane.fail(errBroken)
		c := r.join(s)
		report(t, c, 1)
		c.Leave()
		pass(lastTry + retryMax + time.Second)
		s.Close()
		if n := r.counts.get().dropped[DroppedUnsent]; n != 1 || s.room.used.Load() != 0 || r.all.total.used.Load() != 0 {
			t.Errorf("dropped %d clusters, %d bytes are left", n, s.room.used.Load())
		}
	})
}

// A server without the service is asked once, by one scope. All clients get UNIMPLEMENTED, at
// once for five minutes; then it is asked again.
func TestUnserved_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		unimplemented := status.Error(codes.Unimplemented, "unknown service envoy.service.load_stats.v3.LoadReportingService")
		s, plane := r.scope()
		other, otherPlane := r.scope()
		a, b := r.join(s), r.join(other)
		if n := len(otherPlane.streams()); n != 0 {
			t.Fatalf("a second scope asked too")
		}
		report(t, a, 1)
		plane.last().end(unimplemented)
		synctest.Wait()
		if _, _, err := a.answer(); status.Code(err) != codes.Unimplemented {
			t.Errorf("the client got %v", err)
		}
		pass(time.Second)
		if _, _, err := b.answer(); status.Code(err) != codes.Unimplemented || len(otherPlane.streams()) != 0 {
			t.Errorf("a client of another scope got %v, after %d attempts", err, len(otherPlane.streams()))
		}
		a.Leave()
		b.Leave()
		pass(unservedFor - 2*time.Second)
		_, err := s.Join("node")
		wantCode(t, err, codes.Unimplemented, "no load reporting service")
		if now := r.counts.get(); now.served || now.refused[RefusedUnserved] != 1 || now.dropped[DroppedUnsent] != 1 || now.failed != 0 {
			t.Errorf("counted %+v", now)
		}
		pass(2 * time.Second)
		c := r.join(s)
		if n := len(plane.streams()); n != 2 {
			t.Fatalf("%d attempts after five minutes, want a second one", n)
		}
		plane.last().answer(every(time.Second))
		if told, _, err := c.answer(); err != nil || told == nil {
			t.Errorf("the client was told %v, %v", told, err)
		}
		if !r.counts.get().served {
			t.Error("counted as not served")
		}
	})
}

// While a control plane cannot be reached one scope tries at a time; the others follow when it
// answered, or let a stream stand.
func TestOneProbe_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		var planes []*fakeSource
		for range 20 {
			s, plane := r.scope()
			plane.fail(errBroken)
			r.join(s)
			planes = append(planes, plane)
		}
		attempts := func() (n int) {
			for _, plane := range planes {
				n += len(plane.streams())
			}
			return n
		}
		pass(10 * time.Minute)
		if n := attempts(); n < 20 || n > 300 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		for _, plane := range planes {
			plane.fail(nil)
		}
		before := attempts()
		pass(retryMax + time.Second)
		if n := attempts() - before; n < 1 {
			t.Fatal("nobody tries")
		}
		pass(standsFor + retryMax + time.Second)
		if n := attempts() - before; n != len(planes) {
			t.Errorf("%d streams, want %d", n, len(planes))
		}
	})
}

// Where a reload changes the way to the control plane, the stream ends in order, and another
// one goes the new way.
func TestRenewed_LRS1(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		c := r.join(s)
		up := plane.last()
		up.answer(every(10 * time.Second))
		report(t, c, 1)
		up.set(func() { up.current = false })
		pass(10 * time.Second)
		wantSums(t, up, 1)
		if !up.ended() || !errors.Is(context.Cause(up.ctx), io.EOF) || len(plane.streams()) != 2 {
			t.Errorf("ended %v, %d streams", up.ended(), len(plane.streams()))
		}
		if now := r.counts.get(); now.failed != 0 {
			t.Errorf("counted %d failures", now.failed)
		}
	})
}

// A control plane that is reached in another way may have the service.
func TestReset_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		c := r.join(s)
		plane.last().end(status.Error(codes.Unimplemented, "none"))
		synctest.Wait()
		c.Leave()
		r.gate.Reset()
		r.join(s)
		if n := len(plane.streams()); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A source that has no streams to offer is never opened: files, polls.
func TestNoStreams_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		plane.fail(ErrUnserved)
		c := r.join(s)
		if _, _, err := c.answer(); !errors.Is(err, ErrUnserved) {
			t.Errorf("got %v", err)
		}
	})
}

// Of several servers one may have no such service, as in the middle of an upgrade: that ends
// nothing that works, and the others are not asked again for it.
func TestMixed_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		works, plane := r.scope()
		r.join(works)
		plane.last().answer(every(10 * time.Second))
		fails, other := r.scope()
		other.fail(status.Error(codes.Unimplemented, "none"))
		c := r.join(fails)
		if _, _, err := c.answer(); status.Code(err) != codes.Unimplemented {
			t.Errorf("got %v", err)
		}
		pass(time.Minute)
		if told, _, err := r.join(works).answer(); told == nil || err != nil {
			t.Errorf("told %v, %v", told, err)
		}
		_, err := fails.Join("node")
		wantCode(t, err, codes.Unimplemented, "no load reporting service")
		if n := len(other.streams()); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// What becomes of a stream that was opened before a reset says nothing of the control plane as
// it is reached now: a refusal is none of it, nor is a stream that stands.
func TestResetBeforeTheEnd_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		c := r.join(s)
		report(t, c, 1)
		r.gate.Reset()
		plane.last().end(status.Error(codes.Unimplemented, "none"))
		synctest.Wait()
		if n := len(plane.streams()); n != 2 {
			t.Fatalf("%d attempts, want one at the control plane as it is reached now", n)
		}
		if now := r.counts.get(); !now.served || now.refused[RefusedUnserved] != 0 || len(now.dropped) != 0 {
			t.Errorf("counted %+v", now)
		}
		plane.last().answer(every(time.Second))
		pass(time.Second)
		wantSums(t, plane.last(), 1)
		if told, _, err := c.answer(); told == nil || err != nil {
			t.Errorf("the client was told %v, %v", told, err)
		}
	})
}

// The same of one that stands, and breaks later: one scope tries at a time, until its stream
// stands.
func TestResetWhileStanding_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		old, before := r.scope()
		r.join(old)
		pass(time.Second)
		r.gate.Reset()
		first, probe := r.scope()
		r.join(first)
		if len(probe.streams()) != 1 {
			t.Fatal("nobody tries")
		}
		second, later := r.scope()
		r.join(second)
		pass(standsFor - time.Second/2)
		if len(later.streams()) != 0 {
			t.Error("a stream from before opened the gate")
		}
		before.last().end(errBroken)
		pass(time.Second / 4)
		if n := len(before.streams()); n != 1 || len(later.streams()) != 0 {
			t.Errorf("%d and %d streams beside the one that tries", n-1, len(later.streams()))
		}
		pass(2 * time.Second)
		if len(before.streams()) != 2 || len(later.streams()) != 1 {
			t.Error("the gate stays closed")
		}
	})
}

// A gate says nothing before something happened: its configuration may never come into force.
// One whose upstream's name is another's says nothing any more.
func TestGateTells_LRS2(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		r.counts.Served(false) // of the gate that is in force
		next := NewGate(r.counts)
		if r.counts.get().served {
			t.Error("a gate that is not in force counts as served")
		}
		next.Reset()
		if !r.counts.get().served {
			t.Error("a gate that came into force does not count as served")
		}
		r.gate.Retire()
		s, plane := r.scope()
		r.join(s)
		plane.last().end(status.Error(codes.Unimplemented, "none"))
		synctest.Wait()
		if !r.counts.get().served {
			t.Error("a gate that is retired still tells")
		}
	})
}

// A scope and its upstream say how far reports come.
func TestStatus_LRS1(t *testing.T) {
	bubble(t, func(r *rig) {
		t := r.t
		s, plane := r.scope()
		has := func(what string, want Status) {
			t.Helper()
			if got := s.Status(); got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		has("nobody reports", Status{State: StateIdle})
		plane.fail(errBroken)
		c := r.join(s)
		has("the control plane is away", Status{State: StateConnecting, Clients: 1})
		plane.fail(nil)
		pass(retryMax)
		has("it has not asked", Status{State: StateWaiting, Clients: 1})
		plane.last().answer(every(10 * time.Second))
		has("it has asked", Status{State: StateReporting, Clients: 1, Interval: 10 * time.Second})
		pass(10 * time.Second)
		sent := time.Now()
		has("a report was sent", Status{State: StateReporting, Clients: 1, Interval: 10 * time.Second, LastSent: sent})
		plane.fail(errBroken)
		plane.last().end(errBroken)
		synctest.Wait()
		has("the stream broke", Status{State: StateConnecting, Clients: 1, Interval: 10 * time.Second, LastSent: sent})
		plane.fail(status.Error(codes.Unimplemented, "none"))
		pass(retryMax)
		has("it has the service no longer", Status{State: StateUnserved, Clients: 1, LastSent: sent})
		c.Leave()
		if got, want := r.gate.Status(), (Status{State: StateUnserved, LastSent: sent}); got != want {
			t.Errorf("the upstream: %+v, want %+v", got, want)
		}
		r.gate.Reset()
		has("it is reached in another way", Status{State: StateIdle, LastSent: sent})
	})
}

// Of several scopes the one counts that is farthest from reporting.
func TestStatusOfAll_LRS1(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	reporting := Status{State: StateReporting, Clients: 2, Interval: time.Second, LastSent: late}
	for _, tt := range []struct {
		name    string
		a, want Status
	}{
		{"idle", Status{State: StateIdle}, reporting},
		{
			"one waits", Status{State: StateWaiting, Clients: 1, LastSent: early},
			Status{State: StateWaiting, Clients: 3, Interval: time.Second, LastSent: late},
		},
		{
			"one is away, and reports more often", Status{State: StateConnecting, Clients: 1, Interval: time.Millisecond},
			Status{State: StateConnecting, Clients: 3, Interval: time.Millisecond, LastSent: late},
		},
		{"the upstream serves none", Status{State: StateUnserved}, Status{State: StateUnserved, Clients: 2, Interval: time.Second, LastSent: late}},
	} {
		if got, turned := tt.a.Add(reporting), reporting.Add(tt.a); got != tt.want || turned != tt.want {
			t.Errorf("%s: %+v and %+v, want %+v", tt.name, got, turned, tt.want)
		}
	}
}
