package downstream

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// refusals are the names of one type that the relay itself answers (LOC-4, NAME-1, OPS-5). The
// answer is a resource error (ERR-1). In the incremental form removed_resources has the name too;
// in the state of the world the resource is absent. There every request repeats all names: the
// relay remembers a refused name and answers it once, until the client does not name it any more.
type refusals struct {
	untold  []wire.ResourceError  // answers that no response has yet
	names   map[string]codes.Code // refused names that the client still asks for; incremental: only those without an upstream
	bytes   int                   // of names
	missing bool                  // state of the world: a list is due that lacks names, and no store would send it
	unsaid  bool                  // the last list had no room for all answers
	silent  bool                  // names were refused without an answer (ABS-4), and the log says so
	lost    []string              // incremental: names that the client has from "*", which it may not have any more (ACC-2)
}

// errorOverhead is the number of bytes of an answer beside its name and message: tags, lengths and
// the code.
const errorOverhead = 32

// fits reports whether an answer fits into a response with size bytes (RES-9).
func fits(size int, e *wire.ResourceError, room int) bool {
	return size+2*len(e.Name)+len(e.Message)+errorOverhead <= room
}

// add keeps an answer, and the name where it has to be remembered. It reports whether the log
// should have a line: one is enough for all names that are refused together.
func (r *refusals) add(e *wire.ResourceError, f form, full bool) (log bool) {
	log = len(r.untold) == 0
	r.untold = append(r.untold, *e)
	if f == deltaForm && e.Code != codes.NotFound && e.Name != cache.Wildcard {
		return log
	}
	if r.names == nil {
		r.names = make(map[string]codes.Code)
	}
	r.forget(e.Name) // with another code
	r.names[e.Name] = e.Code
	r.bytes += len(e.Name)
	if f == stateForm {
		r.missing = full
		log = log && len(r.names) == 1
	}
	return log
}

// has reports whether a name is refused, and stays so: a name beyond the limit may fit now.
func (r *refusals) has(name string) bool {
	code, refused := r.names[name]
	return refused && !passing(code)
}

// passing reports whether a name that was refused with a code may be served later.
func passing(code codes.Code) bool {
	return code == codes.ResourceExhausted || code == codes.Unavailable
}

// forget forgets a name, if it is refused.
func (r *refusals) forget(name string) {
	if _, refused := r.names[name]; refused {
		delete(r.names, name)
		r.bytes -= len(name)
	}
}

// keep forgets all names but the wanted ones.
func (r *refusals) keep(wanted map[string]bool) {
	for name := range r.names {
		if !wanted[name] {
			r.forget(name)
		}
	}
	r.unsay()
}

// unsay drops a state-of-the-world client's answers to names that were forgotten.
func (r *refusals) unsay() {
	r.untold = slices.DeleteFunc(r.untold, func(e wire.ResourceError) bool {
		_, refused := r.names[e.Name]
		return !refused
	})
}

// batch takes as many answers as one incremental response has room for. A name with dynamic
// parameters is not in removed_resources: the client would drop the resource of the name without
// parameters (DYN-1).
func (r *refusals) batch(typeURL string, room int) *delivery.Batch {
	b := &delivery.Batch{TypeURL: typeURL}
	said, failed := make(map[string]bool), make(map[string]bool)
	for i, e := range r.untold {
		if said[e.Name] { // RES-4
			continue
		}
		if len(said) > 0 && !fits(b.Body.Size(), &e, room) {
			r.untold = r.untold[i:]
			return b
		}
		said[e.Name] = true
		name, parameters := wire.CutWord(e.Name)
		if !parameters && name != cache.Wildcard && e.Code != codes.Unavailable { // RES-7: nothing is known of it
			b.Body.Remove(name)
		}
		if !failed[name] {
			failed[name] = true
			b.Body.AddError(e, name)
		}
	}
	r.untold = nil
	for i, name := range r.lost {
		if b.Body.Size() > 0 && b.Body.Size()+len(name)+errorOverhead > room {
			r.lost = r.lost[i:]
			return b
		}
		if !said[name] {
			said[name] = true
			b.Body.Remove(name)
		}
	}
	r.lost = nil
	return b
}

// due reports whether a response to an incremental client is due.
func (r *refusals) due() bool { return len(r.untold)+len(r.lost) > 0 }

// attach adds as many answers to a state-of-the-world response as it has room for. A response of
// a full-state type must have all resources, so answers go with a list.
func (r *refusals) attach(b *delivery.Batch, room int, full bool) {
	for i := range r.untold {
		if i > 0 && !fits(b.Body.Size(), &r.untold[i], room) {
			r.untold = r.untold[i:]
			r.unsaid = full
			return
		}
		name, _ := wire.CutWord(r.untold[i].Name)
		b.Body.AddStateError(r.untold[i], name)
	}
	r.untold, r.unsaid = nil, false
}
