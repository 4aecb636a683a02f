package wire

// StreamID names one of the streams that a session has to its upstream.
type StreamID struct {
	// TypeURL is the one type that the stream carries, where each type has a stream
	// of its own; "" for a stream that carries all of them.
	TypeURL string
	// Second tells the stream that exists only where one type is wanted both as a
	// whole and by name (SUB-12).
	Second bool
}

// String is how logs and the admin port call the stream: "ads" or the type, and
// "#2" behind it for the second.
func (id StreamID) String() string {
	s := id.TypeURL
	if s == "" {
		s = "ads"
	}
	if id.Second {
		s += "#2"
	}
	return s
}
