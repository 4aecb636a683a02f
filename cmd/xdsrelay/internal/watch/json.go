package watch

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// change is the object of one change.
type change struct {
	Time       time.Time       `json:"time"`
	Event      string          `json:"event"` // xdsclient.Kind's text
	TypeURL    string          `json:"type_url"`
	Name       string          `json:"name"`
	Version    string          `json:"version,omitempty"`
	OldVersion string          `json:"old_version,omitempty"`
	Aliases    []string        `json:"aliases,omitempty"`
	TTL        string          `json:"ttl,omitempty"`
	Size       int             `json:"size,omitempty"` // bytes of the resource in the response
	Code       string          `json:"code,omitempty"`
	Message    string          `json:"message,omitempty"`
	Payload    json.RawMessage `json:"payload,omitempty"`
}

// response is the object that sums a response up.
type response struct {
	Time          time.Time      `json:"time"`
	Event         string         `json:"event"` // response or rejected
	TypeURL       string         `json:"type_url"`
	Nonce         string         `json:"nonce,omitempty"`
	SystemVersion string         `json:"system_version_info,omitempty"` // incremental variants
	Version       string         `json:"version_info,omitempty"`        // the others
	Size          int            `json:"size"`                          // bytes of the whole response
	Changes       map[string]int `json:"changes,omitempty"`             // how many of each kind
	Error         string         `json:"error,omitempty"`
}

// connection is the object of a stream opened or lost.
type connection struct {
	Time    time.Time `json:"time"`
	Event   string    `json:"event"`              // connected or lost
	TypeURL string    `json:"type_url,omitempty"` // of the stream, if it is for one type
	Target  string    `json:"target"`
	Error   string    `json:"error,omitempty"`
	RetryIn string    `json:"retry_in,omitempty"`
}

// json shows an event as objects, one on each line.
func (w *watcher) json(e event) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	put := func(v any) {
		_ = encoder.Encode(v) //nolint:errchkjson // all of it can be encoded: payload is JSON already
	}
	at := e.at.UTC()
	switch {
	case e.response != nil:
		for i := range e.response.Changes {
			if ch := &e.response.Changes[i]; !w.repeats(ch) {
				put(w.change(at, e.response.TypeURL, ch))
			}
		}
		put(w.summed(at, e.response))
	case e.lost != nil:
		put(connection{at, "lost", e.typeURL, w.options.Target, e.lost.Error(), round(e.delay).String()})
	default:
		put(connection{Time: at, Event: "connected", TypeURL: e.typeURL, Target: w.options.Target})
	}
	return b.Bytes()
}

func (w *watcher) change(at time.Time, typeURL string, ch *xdsclient.Change) change {
	c := change{
		Time: at, Event: ch.Kind.String(), TypeURL: typeURL,
		Name: ch.Name, Version: ch.Version, OldVersion: ch.Old,
	}
	if r := ch.Resource; r != nil {
		c.Aliases, c.Size = r.Aliases(), w.sizeOf(r)
		if r.HasTTL {
			c.TTL = r.TTL().String()
		}
		if w.options.Payload {
			c.Payload = new(payload.Secrets).JSON(r, typeURL, payload.AsBase64)
		}
	}
	if ch.Error != nil {
		c.Code, c.Message = ch.Error.Code.String(), ch.Error.Message
	}
	return c
}

// summed sums a response up.
func (w *watcher) summed(at time.Time, r *xdsclient.Response) response {
	o := response{Time: at, Event: "response", TypeURL: r.TypeURL, Nonce: r.Nonce, Size: r.Size}
	if w.options.APIType.delta() {
		o.SystemVersion = r.SystemVersion
	} else {
		o.Version = r.SystemVersion
	}
	if r.Err != nil {
		o.Event, o.Error = "rejected", r.Err.Error()
	}
	for _, ch := range r.Changes {
		if o.Changes == nil {
			o.Changes = make(map[string]int)
		}
		o.Changes[ch.Kind.String()]++
	}
	return o
}

// sizeOf is the number of bytes of a resource in the response: in the
// state-of-the-world variants its payload is all that there is, wrapped or not.
func (w *watcher) sizeOf(r *wire.Resource) int {
	if w.options.APIType.delta() {
		return r.Size()
	}
	return len(r.FramedAny())
}

// round gives a delay without digits that say nothing to a reader.
func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
