package resolve

// Failure says why a name cannot be resolved; it is fit for a metric's label.
type Failure string

// The failures.
const (
	FailureNoSource  Failure = "unclaimed"  // nobody claims the authority (LOC-4)
	FailureDirectory Failure = "directory"  // an entry of what is no list collection (LIST-4)
	FailureEntryType Failure = "entry_type" // an entry of another type
)

// Failures lists every Failure.
func Failures() []Failure {
	return []Failure{FailureNoSource, FailureDirectory, FailureEntryType}
}

// Observer is told what happens, for metrics. Its methods are called from the
// Resolver's goroutine and must not block.
type Observer interface {
	// Switched tells that a name or a glob whose first place is at an upstream is
	// served from an alternative from now on, or by a better place again (LOC-5).
	Switched(upstream string, away bool)
	// Failed tells that a name cannot be resolved, and why.
	Failed(reason Failure)
}

// NopObserver does nothing.
type NopObserver struct{}

var _ Observer = NopObserver{}

// Switched does nothing.
func (NopObserver) Switched(string, bool) {}

// Failed does nothing.
func (NopObserver) Failed(Failure) {}
