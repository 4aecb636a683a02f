package restjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// EncodeError says that a resource cannot be written as JSON. Its text quotes
// nothing of the payload but the name of a type (OPS-6), and is fit for the client.
type EncodeError struct {
	// Name and TypeURL are the resource's.
	Name, TypeURL string
	// Err says why.
	Err error
}

func (e *EncodeError) Error() string {
	return fmt.Sprintf("resource %q of type %q cannot be sent as JSON: %v", e.Name, e.TypeURL, e.Err)
}

// Unwrap gives the cause.
func (e *EncodeError) Unwrap() error { return e.Err }

func encodeError(r *wire.Resource, err error) error {
	return &EncodeError{Name: r.Name, TypeURL: r.TypeURL(), Err: err}
}

var (
	errNoPayload = errors.New("it has no payload")
	errBroken    = errors.New("it is broken") // wire has checked it: cannot happen
	errNoForm    = errors.New("it holds a value that JSON has no form for")
)

// Transcoded is a payload as JSON. It is immutable: made once, it serves any number
// of clients, which matters: making it costs far more than what is left to do for a
// response (BenchmarkEncodeResponse).
type Transcoded struct {
	text  []byte
	lossy bool
}

// Size is how many bytes it takes.
func (t *Transcoded) Size() int { return len(t.text) }

// Transcode makes JSON of a resource's payload. It gives an [*EncodeError] if that
// cannot be done: it is of a type that this build does not know, or has such a type
// within, or is not what its type says.
func Transcode(r *wire.Resource) (*Transcoded, error) {
	t, err := transcode(r)
	if err != nil {
		return nil, encodeError(r, err)
	}
	return t, nil
}

func transcode(r *wire.Resource) (*Transcoded, error) {
	if !r.HasPayload() {
		return nil, errNoPayload
	}
	packed := new(anypb.Any)
	if proto.Unmarshal(r.Any(), packed) != nil {
		return nil, errBroken
	}
	if packed.GetTypeUrl() == "" {
		return nil, errNoType
	}
	var s survey
	text, err := toJSON(packed, &s)
	if err != nil {
		return nil, err
	}
	return &Transcoded{text: text, lossy: s.unknown}, nil
}

// toJSON writes a message without spaces, after a look at what JSON cannot say.
func toJSON(m proto.Message, s *survey) ([]byte, error) {
	if err := s.message(m.ProtoReflect(), -1); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		// A Duration out of range, for instance. The error's own words could quote it.
		return nil, errNoForm
	}
	// protojson puts spaces in at random, lest anybody rely on them.
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return nil, errNoForm
	}
	return b.Bytes(), nil
}
