package keyer

import (
	"fmt"
	"strings"
)

// CanonicalAuthority gives the form in which [Name.Authority] holds an
// authority that is written elsewhere, as in a configuration's list of them
// (LOC-3). The error is a [*NameError] that names the authority.
func CanonicalAuthority(authority string) (string, error) {
	for i := range len(authority) {
		switch authority[i] {
		case '/', '?', '#':
			return "", fail(authority, i, "%q ends an authority and must be percent-encoded in it", authority[i:i+1])
		}
	}
	return component(authority, authority, 0, inAuthority())
}

// AuthorityOf gives the authority of a key as [Key] or [ResolvedKey] gives it for an xdstp
// name; "" for an opaque name, which has none, and for an authority that is empty.
func AuthorityOf(key string) string {
	rest, isXDSTP := strings.CutPrefix(key, prefix)
	if !isXDSTP {
		return ""
	}
	authority, _, _ := strings.Cut(rest, "/")
	return authority
}

// anyLabel begins a pattern of authorities, and stands for at least one
// character.
const anyLabel = "*"

// AuthorityPattern gives the canonical form of what claims authorities (LOC-3):
// an authority, the empty one included, or a pattern "*.example.com" for all that
// end in ".example.com". An asterisk anywhere else would look like a pattern and
// be none, and is refused. The error is a [*NameError] that names the pattern.
func AuthorityPattern(pattern string) (string, error) {
	suffix, isPattern := strings.CutPrefix(pattern, anyLabel)
	switch i := strings.IndexByte(suffix, '*'); {
	case i >= 0:
		return "", fail(pattern, len(pattern)-len(suffix)+i, `a pattern has its asterisk at the beginning, as in "*.example.com"`)
	case isPattern && suffix == "":
		return "", fail(pattern, 0, `a pattern ends in a part of an authority, as in "*.example.com"; all authorities are those of the default upstream`)
	case isPattern && (suffix[0] != '.' || len(suffix) == len(".")):
		return "", fail(pattern, len(anyLabel), `a dot and a part of an authority must follow the asterisk, as in "*.example.com"`)
	}
	canonical, err := CanonicalAuthority(pattern)
	if err == nil && strings.Contains(canonical[len(pattern)-len(suffix):], anyLabel) {
		return "", fail(pattern, -1, "an authority with an asterisk in it cannot be claimed, however it is written")
	}
	return canonical, err
}

// Authorities tells who serves the names of an authority (LOC-3, LOC-4): who
// claims it by name, else who claims the longest suffix of it, else the default.
// The zero Authorities is ready for use. It may be asked from any goroutine once
// the last Claim has returned.
type Authorities struct {
	// Default is the owner of authorities that no owner claims, "" if there is none.
	Default string

	exact    map[string]string
	suffixes map[string]string // by what follows the asterisk, dot included
	longest  int               // of the suffixes
}

// ClaimedError says that two owners claim the same authorities.
type ClaimedError struct {
	Pattern string // canonical
	Owner   string // who has claimed it before
}

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("authority %q is claimed by %q already", e.Pattern, e.Owner)
}

// Claim makes owner, which is not empty, that of an authority or of a pattern as
// [AuthorityPattern] takes it. The error is a [*NameError] or a [*ClaimedError];
// nothing is changed then.
func (a *Authorities) Claim(pattern, owner string) error {
	canonical, err := AuthorityPattern(pattern)
	if err != nil {
		return err
	}
	suffix, isPattern := strings.CutPrefix(canonical, anyLabel)
	claims := &a.exact
	if isPattern {
		claims = &a.suffixes
		a.longest = max(a.longest, len(suffix))
	}
	if before, taken := (*claims)[suffix]; taken {
		return &ClaimedError{Pattern: canonical, Owner: before}
	}
	if *claims == nil {
		*claims = make(map[string]string)
	}
	(*claims)[suffix] = owner
	return nil
}

// Owner gives the owner of an authority, which is canonical as in
// [Name.Authority]; "" if nobody claims it and there is no default (LOC-4).
func (a *Authorities) Owner(authority string) string {
	if owner, ok := a.exact[authority]; ok {
		return owner
	}
	// From the longest suffix on that somebody may claim, so that the cost of a
	// hostile authority is bounded. The asterisk stands for one character or more.
	for i := max(1, len(authority)-a.longest); i < len(authority); i++ {
		if authority[i] != '.' {
			continue
		}
		if owner, ok := a.suffixes[authority[i:]]; ok {
			return owner
		}
	}
	return a.Default
}
