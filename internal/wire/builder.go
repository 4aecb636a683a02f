package wire

import (
	"iter"
	"time"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// coalesceBelow is the size under which a resource is copied into the
// response's own bytes. Every piece of a gather list costs grpc some 70 ns,
// whatever its size: it is counted, referenced, freed and looked at once per
// pass over the list, and an HTTP/2 frame of many pieces outgrows the transport's
// scratch memory. Measured all the way through grpc, building included
// (BenchmarkSend with this constant at 0 and above the size; 1,000 resources
// in a response, per resource on a busy machine with 2 cores, so that only the
// direction counts), shared against copied:
//
//	  21 bytes (a heartbeat)   140 ns    75 ns
//	  76 bytes                 150 ns   100 ns
//	 143 bytes                 160 ns   170 ns
//	 273 bytes                 170 ns   230 ns
//	1105 bytes                 470 ns   900 ns
const coalesceBelow = 128

// keepCap bounds the scratch memory that a builder keeps from one response to
// the next, in entries.
const keepCap = 64

// Builder gathers one DeltaDiscoveryResponse from shared bytes, or one
// DiscoveryResponse: their headers have the same fields, and resources are field
// 2 in both. What is added by Add, AddAs, AddTTL and AddHeartbeat, and what is
// removed, belongs in the former, what is added by AddAny, AddStateError and the
// methods that wrap in the latter, and a body in the form that it was made for; the two
// must not be mixed. The zero value is ready, and after Finish the builder is
// empty and ready again. It belongs to one goroutine. It does not look for names
// that come twice (RES-4): its caller takes each name from a set.
type Builder struct {
	additions  []addition
	ttls       []timed // of additions, in their order: few have one
	heartbeats []heartbeat
	bodies     []*Body
	removed    []string
	errors     []string // encoded, with their tag
	size       int

	controlPlane string // encoded, with its tag

	// What Finish will need, so that it allocates everything once and in its
	// final size: slices of the response's own bytes are in the gather list
	// while the rest of them is still being written.
	own    int // bytes of the response's own, without the header
	runs   int // runs of them that follow a shared piece
	shared int // shared pieces
	tails  int // of those, the ones that are not a whole resource
	open   bool
}

// addition is a resource under a name, "" for the server's spelling.
type addition struct {
	res  *Resource
	name string
	form form
}

// form is what a resource looks like in a response.
type form uint8

const (
	asResource form = iota // incremental
	asAny                  // state of the world
	asWrapped              // state of the world, in a Resource (RES-13)
)

// Add adds r as the server sent it, its ttl aside: its shared bytes, or a copy
// of them if r is so small that copying is cheaper (see coalesceBelow).
func (b *Builder) Add(r *Resource) { b.add(r, "", 0) }

// AddAs adds r under another spelling of its name (NAME-4): a small head of
// the response's own and the rest shared. The name must be valid UTF-8; "" and
// the resource's own name are the same as Add.
func (b *Builder) AddAs(r *Resource, name string) {
	if name == r.Name {
		name = ""
	}
	b.add(r, name, 0)
}

func (b *Builder) add(r *Resource, name string, ttl time.Duration) {
	b.append(addition{res: r, name: name}, ttl)
	size, shared := r.sizeIn(name, ttl), len(r.framed)-r.sharedFrom(name, ttl)
	b.size += size
	if copied(r, name) {
		b.own += size
		b.openRun()
		return
	}
	if size > shared {
		b.own += size - shared
		b.openRun()
		b.tails++
	}
	b.shared++
	b.open = false
}

func (b *Builder) append(a addition, ttl time.Duration) {
	if ttl != 0 {
		b.ttls = append(b.ttls, timed{len(b.additions), ttl})
	}
	b.additions = append(b.additions, a)
}

// copied tells whether a resource is so small that its bytes are copied.
func copied(r *Resource, name string) bool { return len(r.framed)+len(name) < coalesceBelow }

// openRun makes sure that a run of own bytes is there to be written to. The
// first one, which the header is in, is always there.
func (b *Builder) openRun() {
	if !b.open && b.shared > 0 {
		b.runs++
	}
	b.open = true
}

// Remove adds a name to removed_resources (RES-5). It must be valid UTF-8.
func (b *Builder) Remove(name string) {
	b.removed = append(b.removed, name)
	b.addOwn(sizeBytesField(len(name)))
}

// AddError adds e to resource_errors under a name, which replaces its own if
// they differ (NAME-4). It must be valid UTF-8.
func (b *Builder) AddError(e ResourceError, name string) {
	b.addError(fieldErrors, e.encoded(name))
}

func (b *Builder) addError(field protowire.Number, encoded string) {
	framed := make([]byte, 0, sizeBytesField(len(encoded)))
	framed = append(appendBytesTag(framed, field, len(encoded)), encoded...)
	b.errors = append(b.errors, string(framed))
	b.addOwn(len(framed))
}

// addOwn counts bytes that go into the first run.
func (b *Builder) addOwn(n int) {
	b.own += n
	b.size += n
}

// Added gives the resources added by Add, AddAs and AddTTL, each with the name that it
// was added under: for callers that take what was gathered and do not send it.
func (b *Builder) Added() iter.Seq2[string, *Resource] {
	return func(yield func(string, *Resource) bool) {
		for _, a := range b.additions {
			name := a.name
			if name == "" {
				name = a.res.Name
			}
			if !yield(name, a.res) {
				return
			}
		}
	}
}

// RemovedNames are the names removed so far. They are valid until Finish.
func (b *Builder) RemovedNames() []string { return b.removed }

// Resources is the number of resources added so far, heartbeats included.
func (b *Builder) Resources() int {
	n := len(b.additions) + len(b.heartbeats)
	for _, body := range b.bodies {
		n += body.resources
	}
	return n
}

// Removed is the number of names removed so far.
func (b *Builder) Removed() int { return len(b.removed) }

// Errors is the number of errors added so far.
func (b *Builder) Errors() int { return len(b.errors) }

// Size is the number of bytes gathered so far, without those that Finish adds
// (RES-9).
func (b *Builder) Size() int { return b.size }

// Finish ends the response and empties the builder. version is
// system_version_info, or version_info in a state-of-the-world response. All three
// strings must be valid UTF-8; empty ones are left out, as proto3 does.
func (b *Builder) Finish(typeURL, version, nonce string) *Message {
	header := sizeStringField(version) + sizeStringField(typeURL) + sizeStringField(nonce)
	m := &Message{size: header + b.size}
	w := b.writer(m, header+b.own)
	w.own = appendStringField(w.own, fieldResponseVersion, version)
	w.own = appendStringField(w.own, fieldTypeURL, typeURL)
	w.own = appendStringField(w.own, fieldNonce, nonce)
	w.own = append(w.own, b.controlPlane...)
	for _, name := range b.removed {
		w.own = append(appendBytesTag(w.own, fieldRemoved, len(name)), name...)
	}
	for _, e := range b.errors {
		w.own = append(w.own, e...)
	}
	for i := range b.heartbeats {
		w.own = b.heartbeats[i].append(w.own)
	}
	for a, ttl := range b.each() {
		if a.form == asResource {
			w.add(a.res, a.name, ttl)
		} else {
			w.addState(a, ttl)
		}
	}
	w.endRun()
	for _, body := range b.bodies {
		w.gather = append(w.gather, body.gather...)
	}
	m.gather = w.gather
	b.reset()
	return m
}

// each goes through the additions with their ttls, 0 for those without.
func (b *Builder) each() iter.Seq2[addition, time.Duration] {
	return func(yield func(addition, time.Duration) bool) {
		ttls := b.ttls
		for i, a := range b.additions {
			ttl := time.Duration(0)
			if len(ttls) > 0 && ttls[0].addition == i {
				ttl, ttls = ttls[0].ttl, ttls[1:]
			}
			if !yield(a, ttl) {
				return
			}
		}
	}
}

// reset empties the builder. Scratch memory is kept if it is small, or every
// stream would hold on to what its largest response took; the resources are
// let go.
func (b *Builder) reset() {
	*b = Builder{
		additions:  scratch(b.additions),
		ttls:       scratch(b.ttls),
		heartbeats: scratch(b.heartbeats),
		bodies:     scratch(b.bodies),
		removed:    scratch(b.removed),
		errors:     scratch(b.errors),
	}
}

func scratch[E any](s []E) []E {
	if cap(s) > keepCap {
		return nil
	}
	clear(s)
	return s[:0]
}

// writer writes the gather list of one Message. All its slices have their
// final capacity from the start.
type writer struct {
	gather mem.BufferSlice
	pieces []mem.SliceBuffer // what the gather list points to, but for whole resources
	own    []byte
	start  int // of the current run in own
}

func (b *Builder) writer(m *Message, own int) writer {
	w := writer{gather: m.gather0[:0], pieces: m.pieces0[:0], own: make([]byte, 0, own)}
	runs := 1 + b.runs
	n := runs + b.shared
	for _, body := range b.bodies {
		n += len(body.gather)
	}
	if n > len(m.gather0) {
		w.gather = make(mem.BufferSlice, 0, n)
	}
	if n := runs + b.tails; n > len(m.pieces0) {
		w.pieces = make([]mem.SliceBuffer, 0, n)
	}
	return w
}

func (w *writer) add(r *Resource, name string, ttl time.Duration) {
	w.own = r.appendHead(w.own, name, ttl)
	tail := r.framed[r.sharedFrom(name, ttl):]
	switch {
	case copied(r, name):
		w.own = append(w.own, tail...)
	case len(tail) == len(r.framed):
		w.endRun()
		w.gather = append(w.gather, &r.framed)
	default:
		w.endRun()
		w.piece(tail)
	}
}

// endRun puts the own bytes written since the last shared piece into the list.
func (w *writer) endRun() {
	if len(w.own) > w.start {
		w.piece(w.own[w.start:len(w.own):len(w.own)])
		w.start = len(w.own)
	}
}

func (w *writer) piece(b []byte) {
	w.pieces = append(w.pieces, b)
	w.gather = append(w.gather, &w.pieces[len(w.pieces)-1])
}
