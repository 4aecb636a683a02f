package loadreport

// Observer is told what happens to the load reports for one upstream. Its methods may be
// called from any goroutine, and must not block.
type Observer interface {
	// Joined and Left frame a client's stream.
	Joined()
	Left()
	// Received tells of a report of a client, and Sent of one to the control plane.
	Received()
	Sent()
	// Dropped tells of entries of reports that were left out.
	Dropped(why Dropped, entries int)
	// Refused tells of a client's stream that was ended, or not taken.
	Refused(why Refusal)
	// StreamOpened and StreamClosed frame a stream to the control plane, and Failed tells
	// of one that could not be opened, or broke.
	StreamOpened()
	StreamClosed()
	Failed()
	// Served tells whether the control plane is taken to have the service.
	Served(served bool)
}

// Refusal says why a client may not report. It is a metric's label.
type Refusal string

// The refusals. Refusals lists them all.
const (
	RefusedOff      Refusal = "off"      // load_reports: off
	RefusedUnserved Refusal = "unserved" // the control plane has no such service
	RefusedInvalid  Refusal = "invalid"  // a value in a report cannot be
	RefusedOverflow Refusal = "overflow" // the sums would overflow
)

// Refusals lists every refusal.
func Refusals() []Refusal {
	return []Refusal{RefusedOff, RefusedUnserved, RefusedInvalid, RefusedOverflow}
}
