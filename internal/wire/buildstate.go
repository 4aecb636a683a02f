package wire

import "time"

// wrapperType is the type of the Any that a wrapped resource lies in (RES-13).
const wrapperType = "type.googleapis.com/envoy.service.discovery.v3.Resource"

// AddAny adds r to a state-of-the-world response: its payload, byte for byte as
// the server sent it (VAR-8). A resource without payload adds nothing.
func (b *Builder) AddAny(r *Resource) {
	if r.HasPayload() {
		b.addState(addition{res: r, form: asAny}, 0)
	}
}

// AddWrapped adds r to a state-of-the-world response, wrapped in a Resource that
// carries its version, and its name in the client's spelling (RES-13, NAME-4);
// "" stands for the server's. The ttl is left out, as in Add.
func (b *Builder) AddWrapped(r *Resource, name string) { b.AddWrappedTTL(r, name, 0) }

// AddWrappedTTL is AddWrapped with a ttl, which stands in a head of the response's
// own (TTL-1); 0 stands for none.
func (b *Builder) AddWrappedTTL(r *Resource, name string, ttl time.Duration) {
	if name == r.Name {
		name = ""
	}
	b.addState(addition{res: r, name: name, form: asWrapped}, ttl)
}

// AddStateError is AddError for a state-of-the-world response.
func (b *Builder) AddStateError(e ResourceError, name string) {
	b.addError(fieldStateErrors, e.encoded(name))
}

// AddBody adds all resources of a body, which is of the builder's own form.
func (b *Builder) AddBody(body *Body) {
	if body.resources == 0 {
		return
	}
	b.bodies = append(b.bodies, body)
	b.size += body.size
}

func (b *Builder) addState(a addition, ttl time.Duration) {
	b.append(a, ttl)
	head, shared := a.stateSizes(ttl)
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
func (a addition) stateSizes(ttl time.Duration) (head, shared int) {
	if a.form == asAny {
		return 0, len(a.res.framed) - int(a.res.payload)
	}
	whole := sizeBytesField(sizeWrapped(a.res.bodySizeIn(a.name, ttl)))
	shared = len(a.stateTail())
	return whole - shared, shared
}

// sizeWrapped is the size of the Any around a Resource of n bytes, and appendWrapper
// appends what comes before these.
func sizeWrapped(n int) int { return sizeBytesField(len(wrapperType)) + sizeBytesField(n) }

func appendWrapper(b []byte, n int) []byte {
	b = appendBytesTag(b, fieldResources, sizeWrapped(n))
	b = appendStringField(b, fieldAnyTypeURL, wrapperType)
	return appendBytesTag(b, fieldAnyValue, n)
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
func (a addition) appendStateHead(b []byte, ttl time.Duration) []byte {
	if a.form == asAny {
		return b
	}
	b = appendTTL(appendWrapper(b, a.res.bodySizeIn(a.name, ttl)), ttl)
	if a.name != "" {
		b = a.res.appendNameAs(b, a.name)
	}
	return b
}

func (w *writer) addState(a addition, ttl time.Duration) {
	head, shared := a.stateSizes(ttl)
	w.own = a.appendStateHead(w.own, ttl)
	if head+shared < coalesceBelow {
		w.own = append(w.own, a.stateTail()...)
		return
	}
	w.endRun()
	w.piece(a.stateTail())
}

// Join moves what was added to o, save heartbeats, into b, and empties
// o. Names that are in b already are left out (RES-4).
func (b *Builder) Join(o *Builder) {
	there := make(map[string]bool, len(b.additions))
	for _, a := range b.additions {
		there[a.shown()] = true
	}
	for a, ttl := range o.each() {
		if !there[a.shown()] {
			b.addState(a, ttl)
		}
	}
	for _, body := range o.bodies {
		b.AddBody(body)
	}
	for _, e := range o.errors {
		b.errors = append(b.errors, e)
		b.addOwn(len(e))
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
