package wire

import "google.golang.org/grpc/mem"

// wrapperType is the type of the Any that a wrapped resource lies in (RES-13).
const wrapperType = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// AddAny adds r to a state-of-the-world response: its payload, byte for byte as
// the server sent it (VAR-8). A resource without payload adds nothing.
func (b *Builder) AddAny(r *Resource) {
	if r.HasPayload() {
		b.addState(addition{res: r, form: asAny})
	}
}

// AddWrapped adds r to a state-of-the-world response, wrapped in a Resource that
// carries its version, and its name in the client's spelling (RES-13, NAME-4);
// "" stands for the server's. The ttl is left out, as in Add.
func (b *Builder) AddWrapped(r *Resource, name string) {
	if name == r.Name {
		name = ""
	}
	b.addState(addition{res: r, name: name, form: asWrapped})
}

// AddBody adds all resources of a body.
func (b *Builder) AddBody(body *Body) {
	if len(body.framed) == 0 {
		return
	}
	b.bodies = append(b.bodies, body)
	b.size += len(body.framed)
}

func (b *Builder) addState(a addition) {
	b.additions = append(b.additions, a)
	head, shared := a.stateSizes()
	b.size += head + shared
	if head+shared < coalesceBelow {
		b.own += head + shared
		b.openRun()
		return
	}
	if head > 0 {
		b.own += head
		b.openRun()
	}
	b.tails++
	b.shared++
	b.open = false
}

// stateSizes are the sizes of what an addition needs for itself in a
// state-of-the-world response, and of what it shares with others.
func (a addition) stateSizes() (head, shared int) {
	if a.form == asAny {
		return 0, len(a.res.framed) - a.res.payload
	}
	body := a.bodySize()
	whole := sizeBytesField(sizeBytesField(len(wrapperType)) + sizeBytesField(body))
	shared = len(a.stateTail())
	return whole - shared, shared
}

// bodySize is the size of the Resource under the addition's name.
func (a addition) bodySize() int {
	if a.name == "" {
		return len(a.res.Raw())
	}
	return a.res.bodySizeAs(a.name)
}

// stateTail is what an addition shares with others.
func (a addition) stateTail() []byte {
	switch {
	case a.form == asAny:
		return a.res.framed[a.res.payload:len(a.res.framed):len(a.res.framed)]
	case a.name == "":
		return a.res.Raw()
	}
	return a.res.framed[a.res.tail:len(a.res.framed):len(a.res.framed)]
}

// appendStateHead appends what comes before that.
func (a addition) appendStateHead(b []byte) []byte {
	if a.form == asAny {
		return b
	}
	body := a.bodySize()
	b = appendBytesTag(b, fieldResources, sizeBytesField(len(wrapperType))+sizeBytesField(body))
	b = appendStringField(b, fieldAnyTypeURL, wrapperType)
	b = appendBytesTag(b, fieldAnyValue, body)
	if a.name != "" {
		b = a.res.appendNameAs(b, a.name)
	}
	return b
}

func (w *writer) addState(a addition) {
	head, shared := a.stateSizes()
	w.own = a.appendStateHead(w.own)
	if head+shared < coalesceBelow {
		w.own = append(w.own, a.stateTail()...)
		return
	}
	w.endRun()
	w.piece(a.stateTail())
}

// Body is the resources of a state-of-the-world response in one piece of memory,
// for any number of responses. It is immutable.
type Body struct {
	framed    mem.SliceBuffer
	resources int
}

// Resources is how many there are.
func (b *Body) Resources() int { return b.resources }

// Size is the number of bytes they take in a response.
func (b *Body) Size() int { return len(b.framed) }

// Body makes a body of the resources that were added with AddAny and AddWrapped,
// and empties the builder. It copies them: one piece of memory costs each response
// that holds it the same, however many resources are in it (see coalesceBelow).
func (b *Builder) Body() *Body {
	body := &Body{framed: make([]byte, 0, b.size), resources: b.Resources()}
	for _, a := range b.additions {
		body.framed = append(a.appendStateHead(body.framed), a.stateTail()...)
	}
	for _, o := range b.bodies {
		body.framed = append(body.framed, o.framed...)
	}
	b.reset()
	return body
}

// Join moves what was added to o with AddAny and AddWrapped into b, and empties
// o. Names that are in b already are left out (RES-4).
func (b *Builder) Join(o *Builder) {
	there := make(map[string]bool, len(b.additions))
	for _, a := range b.additions {
		there[a.shown()] = true
	}
	for _, a := range o.additions {
		if !there[a.shown()] {
			b.addState(a)
		}
	}
	for _, body := range o.bodies {
		b.AddBody(body)
	}
	o.reset()
}

// shown is the name that the client sees.
func (a addition) shown() string {
	if a.name != "" {
		return a.name
	}
	return a.res.Name
}
