package downstream

import (
	"context"
	"fmt"
	"net/http"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// A client that polls has this time to send its request, and again to read the answer. The
// answer takes memory meanwhile (OPS-3).
const (
	pollReadTime  = 30 * time.Second
	pollWriteTime = 30 * time.Second
)

// REST returns the handler for clients that poll (VAR-5). It has the server's limits. Drain and
// Stop end the held polls.
func (s *Server) REST() http.Handler { return http.HandlerFunc(s.servePoll) }

// Identify has the certificates of polls judged. It is to be called before REST is served.
func (s *Server) Identify(j Judge) { s.polling.judging.by = j }

// servePoll answers one poll.
func (s *Server) servePoll(w http.ResponseWriter, r *http.Request) {
	admitted, crowded := s.beginPoll()
	if !admitted {
		draining().write(w)
		return
	}
	defer s.endPoll()
	s.shared.observer.StreamOpened(REST)
	conn := http.NewResponseController(w)
	within(conn, pollReadTime)
	var a *answer
	if crowded {
		s.shared.observer.Limited(LimitStreams)
		a = refused(&restjson.StatusError{
			Code: http.StatusTooManyRequests, Message: fmt.Sprintf("%d polls are held already", s.shared.config.MaxPolls),
		})
	} else {
		a = s.pollOrFail(w, r, conn)
	}
	within(conn, pollWriteTime)
	identity.ClientOf(r.Context()).Conn().Answers(a.updatesOf())
	s.shared.try(func() { s.polling.turns.write(a, w) })
	a.done()
	farewellPoll(s.shared, s.closing, r, a)
	s.shared.observer.StreamClosed(REST, a.grpcCode())
}

// beginPoll admits a poll, unless the server drains or has stopped. crowded reports that there are
// more than MaxPolls (OPS-5).
func (s *Server) beginPoll() (admitted, crowded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isClosed(s.closing.drained) || isClosed(s.closing.stopped) {
		return false, false
	}
	s.handlers.Add(1)
	s.polled++
	return true, s.polled > s.shared.config.MaxPolls
}

func (s *Server) endPoll() {
	s.mu.Lock()
	s.polled--
	s.mu.Unlock()
	s.handlers.Done()
}

// within limits the time for the next reads and writes; zero: no limit. Not every connection has
// deadlines.
func within(conn *http.ResponseController, d time.Duration) {
	var deadline time.Time
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = conn.SetReadDeadline(deadline)
	_ = conn.SetWriteDeadline(deadline)
}

// pollOrFail is poll, and answers a poll that panics.
func (s *Server) pollOrFail(w http.ResponseWriter, r *http.Request, conn *http.ResponseController) (a *answer) {
	defer s.shared.safety.panics.Catch(logs.PartClient, func(e *logs.PanicError) {
		a.done()
		a = failedPoll(e)
	})
	return s.poll(w, r, conn)
}

// poll reads a poll and returns the answer when it is due. Before its turn nothing is done for the poll that takes
// more than reading it.
func (s *Server) poll(w http.ResponseWriter, r *http.Request, conn *http.ResponseController) *answer {
	body := s.shared.meter(r)
	defer body.done()
	in, err := s.shared.read(w, r, body)
	within(conn, 0)
	if err != nil {
		return s.shared.unreadable(r, err)
	}
	came := arrival{r.URL.Path, r.RemoteAddr, r.TLS, identity.CallerOf(r.Context())}
	if err := s.polling.judging.judged(came); err != nil {
		return expelled(err)
	}
	client := identify(came.from, came.tls, came.by)
	client.Metadata = func(name string) []string { return restjson.Metadata(r.Header, name) }
	turn, err := admit(r.Context(), s.shared.admission, &client, in.Presents)
	switch {
	case err != nil && r.Context().Err() != nil:
		return gone()
	case err != nil:
		return refused(err)
	}
	defer done(turn)
	req, err := in.Decode()
	body.done()
	if err != nil {
		return s.shared.unreadable(r, err)
	}
	s.shared.observer.Requested(req.GetTypeUrl())
	a := carryOut(r.Context(), s, client, came, req, turn)
	a.node = clip(req.GetNode().GetId())
	return a
}

// carryOut has a poll among the members until its answer is due.
func carryOut(ctx context.Context, s *Server, client keyer.Peer, came arrival, req *discovery.DiscoveryRequest, turn Turn) (a *answer) {
	p, err := newPoll(s.shared, s.polling, client, came, req)
	if err != nil {
		return refused(err)
	}
	defer p.close()
	defer s.shared.safety.panics.Catch(logs.PartClient, func(e *logs.PanicError) {
		s.shared.suspect(p.places)
		a.done()
		a = failedPoll(e)
	})
	if err := s.hold(p); err != nil {
		return refused(err)
	}
	defer s.removePoll(p)
	if err := p.subscribe(); err != nil {
		return refused(err)
	}
	return p.run(ctx, turn)
}

// admit waits until a poll may be worked on.
func admit(ctx context.Context, a Admission, client *keyer.Peer, presents bool) (Turn, error) {
	switch {
	case a == nil:
		return nil, nil //nolint:nilnil // because there is nothing to end
	case presents:
		return a.Poll(ctx, quota.ClientOf(client))
	default:
		return a.Join(ctx, quota.ClientOf(client))
	}
}

// hold adds a poll to the members, unless there are too many, or too many of its client.
func (s *Server) hold(p *poll) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	who, most := p.caller(), s.shared.limits.Load().PerClient.PollsPerClient
	if most > 0 && s.polling.held[who] >= most {
		s.shared.observer.Limited(LimitPolls)
		return &restjson.StatusError{
			Code: http.StatusTooManyRequests, Message: fmt.Sprintf("this client has %d polls held already (limits.polls_per_client)", most),
		}
	}
	if err := s.add(p.standing.id, p); err != nil {
		return err
	}
	s.polling.held[who]++
	s.polling.payloads.enter()
	return nil
}

// removePoll removes a poll from the members.
func (s *Server) removePoll(p *poll) {
	s.polling.payloads.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	quota.AddTo(s.polling.held, p.caller(), -1)
	s.remove(p.standing.id, p)
}
