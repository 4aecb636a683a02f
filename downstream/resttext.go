package downstream

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

// errRESTBytes refuses a poll whose answer has no room (LIM-1). The client comes back.
var errRESTBytes = &restjson.StatusError{
	Code: http.StatusServiceUnavailable, Message: "answers to polls take as much memory as limits.rest_bytes allows: try again later, or another replica",
}

var errEncoding = errors.New("the answer could not be made")

// partBytes is about how much memory an answer takes for each resource beside its JSON.
const partBytes = 128

// writing are the answers to polls that are being written. Polls that are due the same at the same time share
// one. A client that reads slowly keeps its answer in memory, so that they are bounded together (LIM-1).
type writing struct {
	bytes atomic.Int64 // of all texts; the JSON of a resource counts once

	mu    sync.Mutex
	texts map[textKey][]*text // guarded by mu; nearly always one of a key
}

// textKey tells most answers apart.
type textKey struct {
	typeURL, version, nonce, identifier string
	wrapped                             bool
	resources                           int
}

// text is one answer as JSON, while it is being written.
type text struct {
	writing *writing
	key     textKey
	of      *delivery.Snapshot
	limit   int
	writers int // polls; guarded by writing.mu

	// written by once
	once     sync.Once
	err      error
	encoded  *restjson.Encoded
	payloads []*payload // of its resources, in their order
	own      int64      // bytes, beside those of payloads
	added    int64      // to writing.bytes
}

// of returns the text of an answer with the content of a snapshot, with one more writer. done takes that back.
// limit is for the bytes of all texts; 0: there is none.
func (w *writing) of(o *restjson.Outgoing, s *delivery.Snapshot, limit int) *text {
	key := textKey{o.TypeURL, o.VersionInfo, o.Nonce, o.ControlPlane, o.Wrapped, len(s.Resources)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.texts[key] {
		if t.is(s) {
			t.writers++
			return t
		}
	}
	t := &text{writing: w, key: key, of: s, limit: limit, writers: 1}
	if w.texts == nil {
		w.texts = make(map[textKey][]*text)
	}
	w.texts[key] = append(w.texts[key], t)
	return t
}

// is reports whether a text has the content of a snapshot, to the byte. Answers with errors are not compared.
func (t *text) is(s *delivery.Snapshot) bool {
	return len(t.of.Errors)+len(s.Errors) == 0 && t.of.Equal(s)
}

// hold counts the JSON of a resource, unless another text has it, and reports whether there is room.
func (t *text) hold(p *payload) bool {
	t.payloads = append(t.payloads, p)
	t.own += partBytes
	if p.writers.Add(1) == 1 {
		return t.add(partBytes + int64(p.transcoded.Size()))
	}
	return t.add(partBytes)
}

// holdErrors counts the errors of an answer, and reports whether there is room.
func (t *text) holdErrors(all []delivery.NamedError) bool {
	n := 0
	for _, e := range all {
		n += partBytes + len(e.Name) + len(e.Error.Message)
	}
	t.own += int64(n)
	return t.add(int64(n))
}

// add counts bytes, and reports whether there is room for them. A text that is alone always has room.
func (t *text) add(n int64) bool {
	t.added += n
	all := t.writing.bytes.Add(n)
	return t.limit == 0 || all <= int64(t.limit) || all <= t.added
}

// done takes a writer back. With the last one the text is gone.
func (t *text) done() {
	w := t.writing
	w.mu.Lock()
	t.writers--
	last := t.writers == 0
	if last {
		w.texts[t.key] = slices.DeleteFunc(w.texts[t.key], func(o *text) bool { return o == t })
		if len(w.texts[t.key]) == 0 {
			delete(w.texts, t.key)
		}
	}
	w.mu.Unlock()
	if !last {
		return
	}
	w.bytes.Add(-t.own)
	for _, p := range t.payloads {
		if p.writers.Add(-1) == 0 {
			w.bytes.Add(-int64(p.transcoded.Size()))
		}
	}
}
