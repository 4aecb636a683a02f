package downstream

import (
	"net/http"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// safety keeps panics to the clients that are served (SUR-6).
type safety struct {
	panics  *logs.Panics       // nil: none is caught
	suspect func(*cache.Store) // nil: nobody is told
}

// broke ends a stream after a panic in the goroutine that owns it (SUR-6), and returns the status.
// The value is that of recover. The owner may be a sender: it goes on with the next stream.
func (st *stream) broke(value any) error {
	e := st.shared.safety.panics.Note(logs.PartClient, value)
	if st.subscriber != nil {
		st.shared.suspect(st.subscriber.Places())
	}
	return st.link.close(failed(e))
}

// failed is the status of a stream that a panic ended.
func failed(e *logs.PanicError) error { return status.Error(codes.Internal, e.Error()) }

// failedPoll is the answer to a poll that a panic ended.
func failedPoll(e *logs.PanicError) *answer {
	return refused(&restjson.StatusError{Code: http.StatusInternalServerError, Message: e.Error()})
}

// suspect has the stores checked that a client used whose serving panicked.
func (s *shared) suspect(places []*delivery.Place) {
	if s.safety.suspect == nil {
		return
	}
	for _, place := range places {
		s.safety.suspect(place.Store())
	}
}

// try does a part of the end of a stream or poll: the other parts are to be done even if it panics.
func (s *shared) try(part func()) { _ = s.safety.panics.Do(logs.PartClient, part) }
