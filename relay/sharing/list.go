package sharing

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// Lone is how many scopes with one client are listed beside the largest ones.
const Lone = 10

// Result sums up. Its lists have at most limit elements each, and Result.Lone at most
// [Lone]. The survey may go on.
func (s *Survey) Result(limit int) *Result {
	r := &Result{
		Clients: s.clients, Served: s.served, Scopes: len(s.scopes),
		Types: []TypeTotals{}, Rules: []RuleTotals{}, Lone: []Scope{},
		Failures: s.failures.list(limit), Refusals: s.refusals.list(limit),
	}
	if r.Scopes > 0 {
		r.Ratio = math.Round(10*float64(r.Served)/float64(r.Scopes)) / 10
	}
	sorted := s.sorted()
	byType, byRule, fields := make(map[string]int), make(map[string]int), make(map[FieldTotals]int)
	for _, at := range sorted {
		r.count(at)
		for typ := range at.Types {
			byType[typ]++
		}
		byRule[at.Rule]++
		for _, f := range at.fields.Names {
			fields[FieldTotals{Rule: at.Rule, Field: f}]++
		}
	}
	for _, url := range s.order {
		t := *s.types[url]
		t.Scopes = byType[t.Type]
		r.Types = append(r.Types, t)
	}
	for _, name := range s.ruleNames() {
		t := *s.rules[name]
		t.Scopes = byRule[name]
		r.Rules = append(r.Rules, t)
	}
	r.Fields = fieldList(fields, limit)
	r.Largest = make([]Scope, 0, min(limit, len(sorted)))
	for _, at := range sorted[:min(limit, len(sorted))] {
		r.Largest = append(r.Largest, at.view())
	}
	return r
}

// count takes a scope into the totals.
func (r *Result) count(at *scope) {
	if at.Clients == 1 {
		r.Alone++
		if len(r.Lone) < Lone {
			r.Lone = append(r.Lone, at.view())
		}
	}
	if at.Isolated {
		r.Isolated++
	}
	if len(at.fields.Names) > 0 {
		r.Unmentioned++
	}
}

// view gives a scope as it stands in a Result.
func (at *scope) view() Scope {
	v := at.Scope
	v.Types = maps.Clone(at.Types)
	v.Unmentioned, v.More = slices.Clone(at.fields.Names), at.fields.More
	return v
}

// sorted lists the scopes, the largest first.
func (s *Survey) sorted() []*scope {
	list := slices.Collect(maps.Values(s.scopes))
	slices.SortFunc(list, func(a, b *scope) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Scope.Scope, b.Scope.Scope))
	})
	return list
}

// ruleNames lists the rules in order: the configuration's, "otherwise", and those that a
// former configuration had, of whose clients some have not been asked anew.
func (s *Survey) ruleNames() []string {
	names := append(slices.Clone(s.options.Rules), rules.Otherwise)
	var others []string
	for name := range s.rules {
		if !slices.Contains(names, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

func fieldList(fields map[FieldTotals]int, limit int) []FieldTotals {
	list := make([]FieldTotals, 0, len(fields))
	for f, n := range fields {
		f.Scopes = n
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b FieldTotals) int {
		return cmp.Or(cmp.Compare(b.Scopes, a.Scopes), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Field, b.Field))
	})
	return list[:min(limit, len(list))]
}

func (c cases) list(limit int) []Case {
	list := make([]Case, 0, len(c))
	for _, at := range c {
		list = append(list, *at)
	}
	slices.SortFunc(list, func(a, b Case) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Reason, b.Reason))
	})
	return list[:min(limit, len(list))]
}
