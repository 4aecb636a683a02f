package baseline

import (
	"errors"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// stream is one client's stream. Its handler reads; what answers a request goes out
// from there too, and updates from a sender.
type stream struct {
	grpc  grpc.ServerStream
	state bool
	// By type. The handler's own: a request that subscribes to everything again makes none more, or
	// each update would go out as often as a client asks.
	followers map[string]*follower

	mu    sync.Mutex // one message at a time
	ended bool       // guarded by mu: gRPC allows no call after the handler returned
}

func (st *stream) send(m mem.BufferSlice) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.ended {
		return io.EOF
	}
	return st.grpc.SendMsg(m)
}

func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
}

func (s *Server) handler(state bool) grpc.StreamHandler {
	return func(_ any, g grpc.ServerStream) error {
		s.streams.Add(1)
		st := &stream{grpc: g, state: state, followers: make(map[string]*follower)}
		sender := s.senders[s.next.Add(1)%uint64(len(s.senders))]
		defer sender.leave(st)
		defer st.end()
		r := request{state: state}
		for {
			if err := g.RecvMsg(&r); err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			s.requests.Add(1)
			if r.answers {
				continue
			}
			if err := s.begin(st, &r, sender); err != nil {
				return err
			}
		}
	}
}

// wildcard is the name of everything there is of a type.
const wildcard = "*"

// begin answers a request that subscribes, or lets go of something.
func (s *Server) begin(st *stream, r *request, sender *sender) error {
	if f := st.followers[r.typeURL]; f != nil && (r.leaves || slices.Contains(r.names, wildcard)) {
		f.gone.Store(true)
		delete(st.followers, r.typeURL)
		sender.ring() // or none of them would be forgotten before the next update
	}
	if r.dropped && len(r.names) == 0 {
		return nil
	}
	all := len(r.names) == 0 || slices.Contains(r.names, wildcard)
	s.mu.Lock()
	t := s.tables[r.typeURL]
	if t == nil {
		s.mu.Unlock()
		return status.Errorf(codes.InvalidArgument, "nothing of type %q is served", r.typeURL)
	}
	last := t.last
	var responses []mem.BufferSlice
	var err error
	switch {
	case !all:
		if m := t.named(r.names); m != nil {
			responses = append(responses, m)
		}
	case st.state:
		var list mem.BufferSlice
		list, err = t.list()
		responses = append(responses, list)
	case !r.presented: // who presents versions has everything already
		responses = t.everything()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for _, m := range responses {
		if err := st.send(m); err != nil {
			return err
		}
	}
	if all {
		f := &follower{stream: st, at: last}
		st.followers[r.typeURL] = f
		sender.follow(f)
	}
	return nil
}
