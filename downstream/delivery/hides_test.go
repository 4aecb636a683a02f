package delivery

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// A client is told no error of a member that it may not have, and each other one (ACC-3, ERR-1).
func TestHiddenErrors_ACC3_ERR1(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.s.JudgedBy(denying{names: map[string]bool{"a": true, "*": true}, off: everyUse}, false)
	c.sub(eds, "*")
	b.connect(0)
	b.says(eds, "+a@1", "+b@1")
	b.expect(c.collect(), "EDS +b@1")
	for _, tc := range []struct {
		name string
		want []string
	}{{"a", nil}, {"b", []string{"EDS !b"}}, {"*", []string{"EDS !*"}}, {"a", nil}} {
		b.fails(eds, tc.name, unavailable)
		b.expect(c.collect(), tc.want...)
	}
}

// To a client that may have none of its members a collection is empty, once the server has answered (ACC-3).
func TestHiddenMembersAreNone_ACC3(t *testing.T) {
	for spelling, empty := range map[string]string{"*": "EDS", globG: "EDS -" + globG} {
		for _, hidden := range []bool{false, true} {
			b := newBed(t, cache.Limits{})
			c := b.join()
			c.s.JudgedBy(denying{names: map[string]bool{nameG1: hidden}, off: everyUse}, false)
			c.sub(eds, spelling)
			b.connect(0)
			b.expect(c.collect())
			b.says(eds, "+"+nameG1+"@1")
			b.settle()
			if hidden {
				b.expect(c.collect(), empty)
			} else {
				b.expect(c.collect(), "EDS +"+nameG1+"@1")
			}
			b.expect(c.collect())
		}
	}
}

// Where alternatives lead is not told to a client that may not have all: neither that something is there, nor its name
// (ACC-3).
func TestConcealedErrors_ACC3(t *testing.T) {
	for _, tc := range []struct {
		resolved, screened bool
		code               codes.Code
		conceals, masks    bool
	}{
		{true, true, codes.FailedPrecondition, true, true},
		{true, true, codes.Unavailable, false, true},
		{true, false, codes.FailedPrecondition, false, false},
		{false, true, codes.FailedPrecondition, false, false},
		{false, false, codes.FailedPrecondition, false, false},
	} {
		b := newBed(t, cache.Limits{})
		if tc.resolved {
			b = resolvedBed(t)
		}
		c := b.join()
		if tc.screened {
			c.s.JudgedBy(denying{off: everyUse}, false)
		}
		c.sub(cds, nameG1)
		if tc.resolved {
			b.resolves("!" + nameG1)
		} else {
			b.connect(0)
			b.fails(cds, nameG1, unavailable)
		}
		w, err := c.c.find(cds), &wire.ResourceError{Name: "x", Code: tc.code, Message: "it leads to secret"}
		if got := w.conceals(err); got != tc.conceals {
			t.Errorf("%+v: it is concealed: %t", tc, got)
		}
		got := w.mask(err)
		if masked := got.Message == maskedError; masked != tc.masks || (!masked && got != err) || got.Name != "x" || got.Code != tc.code {
			t.Errorf("%+v: it is told as %+v", tc, got)
		}
	}
}

// Of a member's error by which a client could tell that something is there it is told nothing. A glob's own it is
// told (ACC-3, ERR-1).
func TestConcealedMemberErrors_ACC3_ERR1(t *testing.T) {
	for _, tc := range []struct {
		key  string
		code codes.Code
		told bool
	}{
		{globG, codes.FailedPrecondition, true},
		{globG, codes.Unavailable, true},
		{nameG1, codes.FailedPrecondition, false},
		{nameG1, codes.Unavailable, true},
	} {
		b := resolvedBed(t)
		c := b.join()
		c.s.JudgedBy(denying{off: everyUse}, false)
		c.subResolved(globG, globG)
		b.demand(0)
		b.resolves("+" + nameG2 + " " + altH1 + "@1")
		b.expect(c.collect(), "CDS +"+nameG2+"@1")
		failed := cache.Failure{Key: tc.key, Error: wire.ResourceError{Code: tc.code}}
		b.store.Session().ApplyResolved([]*cache.Resolved{{TypeURL: cds, Failed: []cache.Failure{failed}}}, time.Now())
		var want []string
		if tc.told {
			want = []string{"CDS !" + tc.key}
		}
		b.expect(c.collect(), want...)
	}
}

// A client is told that there is nothing in place of an error, unless it may hold the resource (ACC-3).
func TestConcealedNames_ACC3(t *testing.T) {
	for _, tc := range []struct {
		code           codes.Code
		holds, screens bool
		want           bool
	}{
		{codes.FailedPrecondition, false, true, true},
		{codes.FailedPrecondition, true, true, false},
		{codes.FailedPrecondition, false, false, false},
		{codes.Unavailable, false, true, false},
		{codes.OK, false, true, false}, // it is not there
	} {
		b := resolvedBed(t)
		c := b.join()
		if tc.screens {
			c.s.JudgedBy(denying{off: everyUse}, false)
		}
		c.sub(cds, nameG1)
		r := &cache.Resolved{TypeURL: cds}
		if tc.code == codes.OK {
			r.Removed = append(r.Removed, nameG1)
		} else {
			r.Failed = append(r.Failed, cache.Failure{Key: nameG1, Error: wire.ResourceError{Code: tc.code}})
		}
		b.store.Session().ApplyResolved([]*cache.Resolved{r}, time.Now())
		n := c.c.find(cds).subs.names.get(nameG1)
		n.holds = tc.holds
		if got := n.concealed(); got != tc.want {
			t.Errorf("%+v: it is concealed: %t", tc, got)
		}
	}
}

// A client was not sent a member that leads to what it may not have, and is not told that it goes (ACC-3).
func TestConcealedMemberGoes_ACC3(t *testing.T) {
	for denied, told := range map[string]bool{altH1: false, "other": true} {
		b := resolvedBed(t)
		c := b.join()
		c.s.JudgedBy(denying{names: map[string]bool{denied: true}, off: everyUse}, false)
		c.subResolved(globG, globG)
		b.demand(0)
		b.resolves("+"+nameG1+" "+altH1+"@1", "+"+nameG2+" "+nameG2+"@1")
		b.resolves("=" + globG)
		sent, gone := []string{"CDS +" + nameG2 + "@1"}, []string(nil)
		if told {
			sent, gone = []string{"CDS +" + nameG1 + "@1 +" + nameG2 + "@1"}, []string{"CDS -" + nameG1}
		}
		b.expect(c.collect(), sent...)
		b.resolves("-" + nameG1)
		b.expect(c.collect(), gone...)
	}
}

// A member leads to what the client may not have next. The client is told that the member is gone, whether it was sent the
// member or came back with it (ACC-3, RES-11).
func TestMemberIsWithdrawn_ACC3_RES11(t *testing.T) {
	const altH2 = "xdstp://y/envoy.config.cluster.v3.Cluster/h/2"
	for _, presents := range []bool{false, true} {
		for _, known := range []bool{false, true} { // before the client comes
			b := resolvedBed(t)
			first, c := b.join(), b.join()
			first.subResolved(globG, globG)
			b.demand(0)
			if known {
				b.resolves("+" + nameG1 + " " + altH1 + "@1")
				b.resolves("=" + globG)
			}
			c.s.JudgedBy(denying{names: map[string]bool{altH2: true}, off: everyUse}, false)
			ch := Change{TypeURL: cds, Subscribe: []cache.Name{{Spelling: globG, Key: globG}}}
			var sent []string
			if presents {
				ch.Versions.Add(nameG1, "1")
			} else {
				sent = []string{"CDS +" + nameG1 + "@1"}
			}
			c.c.Update(&ch)
			if !known {
				b.resolves("+" + nameG1 + " " + altH1 + "@1")
				b.resolves("=" + globG)
			}
			b.expect(c.collect(), sent...)
			b.resolves("+" + nameG1 + " " + altH2 + "@1")
			b.expect(c.collect(), "CDS -"+nameG1)
			b.expect(c.collect())
		}
	}
}

// puts remembers what it takes.
type puts []outgoing

func (p *puts) take(c outgoing) { *p = append(*p, c) }

// Only what a client may have goes into a response, without the aliases that it may not have (ACC-3).
func TestPut_ACC3(t *testing.T) {
	r := resource(cds, "x@1|a,b")
	for _, tc := range []struct {
		name    string
		form    Form
		judge   Judge
		out     outgoing
		want    bool
		without []string
	}{
		{"all is allowed", Form{}, nil, outgoing{name: "x", resource: r}, true, nil},
		{"a body, and all is allowed", Form{}, nil, outgoing{body: new(wire.Body)}, true, nil},
		{"a body", Form{}, denying{off: everyUse}, outgoing{body: new(wire.Body)}, false, nil},
		{"it is allowed", Form{}, denying{off: everyUse}, outgoing{name: "x", resource: r}, true, nil},
		{"it is denied", Form{}, denying{names: map[string]bool{"x": true}, off: everyUse}, outgoing{name: "x", resource: r}, false, nil},
		{"an alias is denied", Form{}, denying{names: map[string]bool{"b": true}, off: everyUse}, outgoing{name: "x", resource: r}, true, []string{"b"}},
		{"an alias is denied, wrapped", wrappedForm, denying{names: map[string]bool{"b": true}, off: everyUse}, outgoing{name: "x", resource: r}, true, []string{"b"}},
		{"an alias is denied, of which a bare payload has none", bareForm, denying{names: map[string]bool{"b": true}, off: everyUse}, outgoing{name: "x", resource: r}, true, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newBed(t, cache.Limits{}).joinAs(tc.form)
			c.s.JudgedBy(tc.judge, false)
			c.sub(cds, "*")
			var to puts
			if got := c.c.find(cds).put(&to, tc.out); got != tc.want || len(to) > 1 || (len(to) == 1) != tc.want {
				t.Fatalf("it goes out: %t; %d do", got, len(to))
			}
			if tc.want && !slices.Equal(to[0].without, tc.without) {
				t.Errorf("it goes without %q, want %q", to[0].without, tc.without)
			}
		})
	}
}
