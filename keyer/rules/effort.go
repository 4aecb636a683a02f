package rules

// Where rules look at names a client has them evaluated for each, a hundred thousand times,
// and may have sent a node that holds megabytes: what takes milliseconds for one name would
// then take minutes. So the work for all names of a client together is bounded: by what some
// names may take, and by a little for each evaluation beyond (OPS-5). It is counted in
// CEL's units and not in time, so that no busy machine puts a client elsewhere.
const (
	effortAtOnce  = 5_000_000 // a second or two
	effortPerEval = 500       // some 50 µs; most take a tenth of it
	effortPerByte = 10        // bytes that are written for one unit
)

// effort is what the names of one client took.
type effort struct{ spent, allowed uint64 }

// begin allows for another evaluation, or reports that there was too much.
func (e *effort) begin() bool {
	e.allowed += effortPerEval
	return !e.over()
}

// over reports whether there was too much.
func (e *effort) over() bool { return e.spent > effortAtOnce+e.allowed }

func (e *effort) charge(units *uint64) {
	if units != nil {
		e.spent += *units
	}
}

// wrote counts what was made of a value, of so many bytes.
func (v *variables) wrote(bytes int) {
	if v.name != nil {
		v.client.effort.spent += uint64(bytes / effortPerByte)
	}
}
