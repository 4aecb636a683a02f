package loadreport

import (
	"context"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

const (
	// standsFor is how long a stream must stand to show that the control plane takes such
	// streams: it need not answer before it wants reports.
	standsFor = 5 * time.Second
	// closeTime is how long a control plane may take to end a stream on which everything
	// was said.
	closeTime = 2 * time.Second
	// supportsAll says that the clients understand send_all_clusters. All do.
	supportsAll = "envoy.lrs.supports_send_all_clusters"
)

// link is one stream to the control plane, from its opening to its end. It belongs to the
// scope's goroutine.
type link struct {
	scope    *Scope
	stream   Stream
	admitted ticket
	lost     chan error    // one slot: why the stream ended
	heard    chan struct{} // one slot: the control plane has answered

	stood    bool // long enough to show that the control plane takes it
	answered bool
	interval time.Duration
	timer    *time.Timer // when to report next; it is stopped before the first answer
}

// connect opens a stream, and reports until it breaks or is needed no longer: there is no
// error then.
func (s *Scope) connect(admitted ticket) (answered bool, err error) {
	ctx, cancel := context.WithCancel(s.all.ctx)
	defer cancel()
	stream, err := s.source.Open(ctx)
	if err != nil {
		return false, err
	}
	s.observer.StreamOpened()
	defer s.observer.StreamClosed()
	s.reach(StateWaiting)
	defer s.reach(StateConnecting)
	l := &link{
		scope: s, stream: stream, admitted: admitted,
		lost: make(chan error, 1), heard: notify.New(), timer: time.NewTimer(0),
	}
	l.timer.Stop()
	defer l.timer.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stream.Close()
	wg.Go(func() {
		defer s.all.Panics.Catch(logs.PartLoadReports, func(e *logs.PanicError) { l.lost <- e })
		l.receive()
	})
	if err := stream.Send(&loadv3.LoadStatsRequest{Node: nodeOf(stream)}); err != nil {
		return false, l.cause(err)
	}
	err = l.serve()
	return l.answered, err
}

// nodeOf is what the control plane is shown.
func nodeOf(s Stream) *corev3.Node {
	node := proto.CloneOf(s.Node())
	if node == nil {
		node = new(corev3.Node)
	}
	if !slices.Contains(node.GetClientFeatures(), supportsAll) {
		node.ClientFeatures = append(node.ClientFeatures, supportsAll)
	}
	return node
}

// receive takes the control plane's answers until the stream ends.
func (l *link) receive() {
	for {
		var r loadv3.LoadStatsResponse
		if err := l.stream.Receive(&r); err != nil {
			l.lost <- err
			return
		}
		l.scope.respond(&r)
		notify.Signal(l.heard)
	}
}

// cause is why nothing can be sent: what ended the stream says more than the error of Send.
func (l *link) cause(err error) error {
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case cause := <-l.lost:
		return cause
	case <-timer.C:
		return err
	}
}

func (l *link) serve() error {
	look := time.NewTicker(standsFor)
	defer look.Stop()
	for {
		var err error
		over := false
		select {
		case <-l.scope.all.ctx.Done():
			return nil
		case err = <-l.lost:
		case <-l.heard:
			l.hear()
		case <-l.timer.C:
			over, err = l.report()
		case <-l.scope.wake:
			over, err = l.desert()
		case <-look.C:
			l.stand()
			over, err = l.desert()
		}
		if over || err != nil {
			return err
		}
	}
}

// stand notes that the stream has stood for a while.
func (l *link) stand() {
	if !l.stood {
		l.stood = true
		l.scope.gate.passed(l.admitted)
	}
}

// hear notes that the control plane has answered. The first answer begins the interval, and
// so does one with another interval.
func (l *link) hear() {
	interval := l.scope.interval()
	if !l.answered || interval != l.interval {
		l.timer.Reset(interval)
	}
	l.answered, l.interval = true, interval
	l.scope.reach(StateReporting)
	l.stand()
}

// interval is what the control plane wants. It has answered.
func (s *Scope) interval() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer.interval
}

// report sends what has been added up, also if that is nothing, as clients do. It is over if
// the control plane is reached in another way now.
func (l *link) report() (over bool, err error) {
	if err := l.send(); err != nil {
		return false, err
	}
	if !l.stream.Current() {
		l.finish()
		return true, nil
	}
	l.timer.Reset(l.interval)
	return false, nil
}

// desert ends a stream that nobody needs, after the last report.
func (l *link) desert() (over bool, err error) {
	deserted, left := l.scope.deserted()
	if !deserted {
		return false, nil
	}
	if !l.answered {
		// Nothing is said to a control plane that has not asked.
		return !left || l.scope.late(), nil
	}
	if left {
		if err := l.send(); err != nil {
			return false, err
		}
	}
	l.finish()
	return true, nil
}

// late reports whether a scope without clients has tried for long enough.
func (s *Scope) late() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.leftAt) >= lastTry
}

// finish says that nothing more will come, and waits a moment for the control plane to have
// read everything: a stream that is cancelled takes with it what is under way.
func (l *link) finish() {
	l.stream.CloseSend()
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-l.lost: //nolint:errcheck // it is over, whyever
	case <-timer.C:
	case <-l.scope.all.ctx.Done():
	}
}

// send sends the sums. What cannot be sent stays.
func (l *link) send() error {
	s := l.scope
	out, stats := s.take()
	parts, dropped := split(stats, l.stream.MaxRequest())
	if dropped > 0 {
		s.observer.Dropped(DroppedMessage, dropped)
	}
	for _, part := range parts {
		if err := l.stream.Send(&loadv3.LoadStatsRequest{ClusterStats: part}); err != nil {
			s.settle(out, false)
			return l.cause(err)
		}
		s.noteSent()
		for _, c := range part {
			delete(out.clusters, clusterKey{c.GetClusterName(), c.GetClusterServiceName()})
		}
	}
	s.settle(out, true)
	return nil
}
