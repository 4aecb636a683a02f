package rules

import (
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// plain is an expression, or a term of one, that compares texts of a client with texts of the rule, as
// nearly all rules do. It says what CEL would say, or that only CEL can say it. Rules are asked when a
// client joins, when nothing of CEL's programs is in the processor's caches: ten of them would take
// longer than the rest of the join. A nil plain leaves everything to CEL.
type plain struct {
	does  operation
	terms []*plain       // of allOf, anyOf and not
	of    text           // what is looked at
	with  []text         // what it is compared with: any of them, if it is equal
	list  listed         // of inList
	path  []string       // of hasKey: the map's path in the metadata, and the key
	re    *regexp.Regexp // of matching
}

type operation uint8

const (
	always operation = iota
	never
	allOf
	anyOf
	not
	equal
	prefix
	suffix
	within   // of contains what it is compared with
	matching // of matches re
	inList
	hasKey
	onlyCEL
)

// outcome is what a term is for a client.
type outcome uint8

const (
	unclear outcome = iota // only CEL can say, or the term fails
	byName                 // it depends on the name, which is not known
	no
	yes
)

// facts are what plain terms see of a client, a type and, if it is not nil, a name.
type facts struct {
	node    *corev3.Node // nil: the client gave none
	peer    *keyer.Peer
	typeURL string
	name    *string

	// Of the SPIFFE ID, which is taken apart once.
	parsed       bool
	domain, path string
}

func (v *variables) facts() facts {
	return facts{node: v.client.node, peer: &v.client.peer, typeURL: v.typeURL, name: v.name}
}

// spiffe gives the parts of the SPIFFE ID.
func (f *facts) spiffe() (domain, path string) {
	if !f.parsed && f.peer.SPIFFE != "" { // most have none
		f.parsed = true
		f.domain, f.path = f.peer.SPIFFEParts()
	}
	return f.domain, f.path
}

// outcome evaluates a term as CEL does: a false one makes a conjunction false, whatever the others are,
// and a true one makes a disjunction true.
func (p *plain) outcome(f *facts) outcome {
	if p == nil {
		return unclear
	}
	switch p.does {
	case always:
		return yes
	case never:
		return no
	case allOf:
		return p.terminated(f, no, yes)
	case anyOf:
		return p.terminated(f, yes, no)
	case not:
		return p.terms[0].outcome(f).negated()
	case hasKey:
		return f.has(p.path)
	case onlyCEL:
		return unclear
	}
	return p.compared(f)
}

// whole reports whether no term is left to CEL. CEL may be needed all the same: for clients for which a
// term fails, and for names that a regular expression is tried on.
func (p *plain) whole() bool {
	return p != nil && p.does != onlyCEL && !slices.ContainsFunc(p.terms, func(t *plain) bool { return !t.whole() })
}

// isNever reports whether an expression is nothing but false.
func (x *expression) isNever() bool { return x != nil && x.plain != nil && x.plain.does == never }

// terminated is end if one of the terms is, and all if none stands against it.
func (p *plain) terminated(f *facts, end, all outcome) outcome {
	result := all
	for _, t := range p.terms {
		switch o := t.outcome(f); {
		case o == end:
			return end
		case o < no:
			result = min(result, o)
		}
	}
	return result
}

func (o outcome) negated() outcome {
	switch o {
	case yes:
		return no
	case no:
		return yes
	}
	return o
}

func truth(is bool) outcome {
	if is {
		return yes
	}
	return no
}

// compared compares what a term looks at.
func (p *plain) compared(f *facts) outcome {
	of, known := p.of.value(f)
	switch {
	case known != yes && len(p.with) == 0, known == unclear:
		return known
	case p.does == inList:
		return truth(p.list.has(f, of))
	case p.does == matching && f.name != nil:
		return unclear // CEL counts the work for names
	case p.does == matching:
		return truth(p.re.MatchString(of))
	}
	for i := range p.with {
		with, and := p.with[i].value(f)
		if known = min(known, and); known == yes && p.does.holds(of, with) {
			return yes
		}
	}
	return min(known, no)
}

func (o operation) holds(of, with string) bool {
	switch o {
	case prefix:
		return strings.HasPrefix(of, with)
	case suffix:
		return strings.HasSuffix(of, with)
	case within:
		return strings.Contains(of, with)
	}
	return of == with
}
