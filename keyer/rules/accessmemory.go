package rules

import (
	"errors"
	"strings"
)

// maxRemembered bounds how many names of a type have a remembered decision.
const maxRemembered = 100_000

// remembered are decisions about names. A stream has the same names judged with each change, for as
// long as it is open: what takes more work than one evaluation may take without limit would use up the
// work for one client (OPS-5), and all names would be denied then. So such work is done once for each
// name. What there was no work left for stays denied: it must not come and go.
type remembered map[string]AccessDecision

// note keeps a decision if it took much work, or if there was too much.
func (m *remembered) note(name string, d AccessDecision, failure *FailedError, work uint64) {
	if work <= effortPerEval && (failure == nil || !errors.Is(failure, errTooMuch)) {
		return
	}
	if *m == nil {
		*m = make(remembered)
	}
	if len(*m) < maxRemembered {
		(*m)[strings.Clone(name)] = d // it may lie in bytes that go
	}
}
