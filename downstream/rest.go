package downstream

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Clients that poll have this long to send a request, and again to read the answer:
// what they are owed meanwhile is memory that others need (OPS-3).
const (
	pollReadTime  = 30 * time.Second
	pollWriteTime = 30 * time.Second
)

// retryAfter is when a client that was sent away may come back, in seconds.
const retryAfter = "1"

// REST gives the handler for clients that poll (VAR-5). It has the server's limits,
// and ends with it: Drain and Stop end the polls that are held.
func (s *Server) REST() http.Handler { return http.HandlerFunc(s.servePoll) }

// answer is what a poll is answered with.
type answer struct {
	code  int
	body  []byte // with 200
	err   error  // with everything but 200 and 304; fit for the client
	leave bool   // the client is to open its next connection elsewhere (OPS-4)
}

func answered(body []byte) *answer { return &answer{code: http.StatusOK, body: body} }
func unchanged() *answer           { return &answer{code: http.StatusNotModified} }

// gone is the answer to a client that went away, which nobody reads.
func gone() *answer { return &answer{} }

func refused(err error) *answer {
	e := pollError(err)
	return &answer{code: e.Code, err: e}
}

func draining() *answer {
	a := refused(errDraining)
	a.leave = true
	return a
}

// pollError says in HTTP's words what a stream would end with (REST-2).
func pollError(err error) *restjson.StatusError {
	if refused, ok := errors.AsType[*restjson.StatusError](err); ok {
		return refused
	}
	code := http.StatusInternalServerError
	switch status.Code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition:
		code = http.StatusBadRequest
	case codes.Unauthenticated:
		code = http.StatusUnauthorized
	case codes.PermissionDenied:
		code = http.StatusForbidden
	case codes.NotFound:
		code = http.StatusNotFound
	case codes.ResourceExhausted: // what it asks for is too much, now and later
		code = http.StatusRequestEntityTooLarge
	case codes.Unavailable:
		code = http.StatusServiceUnavailable
	}
	message := err.Error()
	if s, ok := status.FromError(err); ok {
		message = s.Message()
	}
	return &restjson.StatusError{Code: code, Message: message}
}

// grpcCode is the status that a poll ends with in the metrics.
func (a *answer) grpcCode() codes.Code {
	switch a.code {
	case 0:
		return codes.Canceled
	case http.StatusOK, http.StatusNotModified:
		return codes.OK
	default:
		return restjson.CodeOf(a.code)
	}
}

// write sends the answer.
func (a *answer) write(w http.ResponseWriter) {
	if a.leave {
		w.Header().Set("Connection", "close") // over HTTP/2 it says the same in its words
	}
	if a.code == http.StatusServiceUnavailable || a.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", retryAfter)
	}
	switch {
	case a.code == 0:
	case a.err != nil:
		restjson.WriteError(w, a.err)
	case a.code == http.StatusNotModified:
		w.WriteHeader(a.code)
	default:
		restjson.WriteResponse(w, a.body)
	}
}

// servePoll answers one poll.
func (s *Server) servePoll(w http.ResponseWriter, r *http.Request) {
	admitted, crowded := s.beginPoll()
	if !admitted {
		draining().write(w)
		return
	}
	defer s.endPoll()
	s.observer.StreamOpened(REST)
	conn := http.NewResponseController(w)
	within(conn, pollReadTime)
	var a *answer
	if crowded {
		a = refused(&restjson.StatusError{
			Code: http.StatusTooManyRequests, Message: fmt.Sprintf("%d polls are held already", s.config.MaxPolls),
		})
	} else {
		a = s.poll(w, r, conn)
	}
	within(conn, pollWriteTime)
	a.write(w)
	s.observer.StreamClosed(REST, a.grpcCode())
}

// beginPoll takes a poll in, unless the server is on its way out. crowded says that
// there are as many as there may be already (OPS-5).
func (s *Server) beginPoll() (admitted, crowded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining() || s.stopped() {
		return false, false
	}
	s.polling.Add(1)
	s.pollCount++
	return true, s.pollCount > s.config.MaxPolls
}

func (s *Server) endPoll() {
	s.mu.Lock()
	s.pollCount--
	s.mu.Unlock()
	s.polling.Done()
}

// within sets the time for what is read and written next; zero for no limit. What
// stands behind w need not be able to.
func within(conn *http.ResponseController, d time.Duration) {
	var deadline time.Time
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = conn.SetReadDeadline(deadline)
	_ = conn.SetWriteDeadline(deadline)
}

// poll reads a poll and gives the answer when it is due.
func (s *Server) poll(w http.ResponseWriter, r *http.Request, conn *http.ResponseController) *answer {
	body := s.meter(r)
	req, err := restjson.DecodeRequest(w, r, int64(s.config.MaxReceiveSize))
	body.done()
	within(conn, 0)
	if err != nil {
		if r.Context().Err() != nil {
			return gone()
		}
		if body.over {
			err = errTooManyBodies
		}
		s.log.Debug("refused a poll", "peer", r.RemoteAddr, "error", err)
		return refused(err)
	}
	s.observer.Requested(req.GetTypeUrl())
	client := identify(r.RemoteAddr, r.TLS)
	client.Metadata = func(name string) []string { return restjson.Metadata(r.Header, name) }
	p := s.newPoll(client, req)
	defer p.close()
	if err := p.subscribe(); err != nil {
		p.log.Debug("refused a poll", "error", err)
		return refused(err)
	}
	p.show()
	return p.run(r.Context())
}
