package directory

import "fmt"

// maxFaults is how many faults of a directory are listed.
const maxFaults = 16

// Kind says what is wrong with an entry.
type Kind uint8

// The kinds of faults.
const (
	Unreadable Kind = iota
	WrongType       // it is, or leads to, a resource of another type than the collection's
	Duplicate       // another inline entry has its name (LIST-4)
)

// FaultError says what is wrong with an entry of a directory. Its text holds names
// and types, nothing of payloads (OPS-6).
type FaultError struct {
	// Number is the entry's place in the directory, counted from 0.
	Number int
	Kind   Kind
	Err    error
}

func (f *FaultError) Error() string { return fmt.Sprintf("resources[%d]: %v", f.Number, f.Err) }

// Unwrap gives the cause.
func (f *FaultError) Unwrap() error { return f.Err }

// faults collects the first few faults and counts the others: a directory may
// have as many as entries.
type faults struct {
	first  []error
	more   int
	counts map[Kind]int
}

func (f *faults) add(number int, kind Kind, err error) {
	if f.counts == nil {
		f.counts = make(map[Kind]int)
	}
	f.counts[kind]++
	if len(f.first) == maxFaults {
		f.more++
		return
	}
	f.first = append(f.first, &FaultError{Number: number, Kind: kind, Err: err})
}

func (f *faults) list() []error {
	if f.more > 0 {
		return append(f.first, fmt.Errorf("and %d more", f.more))
	}
	return f.first
}
