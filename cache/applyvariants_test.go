package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// counts is an observer that remembers how many resources nobody asked for, of each response with such.
type counts struct {
	silent

	unsolicited []int
}

func (c *counts) Unsolicited(_ string, n int) { c.unsolicited = append(c.unsolicited, n) }

// asked is a store whose server was asked for names.
func asked(tb testing.TB, source Source, names ...string) *kept {
	tb.Helper()
	source.Quiet = time.Second
	k := newKeptOf(tb, source)
	l := k.listener(NeedsStream)
	for _, name := range names {
		l.watch(name)
	}
	k.demand(WholeType)
	return k
}

func (k *kept) named(key string) *Entry {
	k.Helper()
	e := k.store.FindTable(cds, ByName).Find(key)
	if e == nil {
		k.Fatalf("there is no %q", key)
	}
	return e
}

// fails applies the error of the variant with constraints.
func (k *kept) fails(text string, code codes.Code) {
	k.Helper()
	v := words.Variant(cds, text)
	k.apply(WholeType, &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{{Name: v.Name, Code: code, Constraints: v.Constraints()}}})
}

// is checks what an entry stands for, "" for nothing.
func (k *kept) is(key string, state State, version string) {
	k.Helper()
	e := k.named(key)
	got := ""
	if e.Exists() {
		got = e.Version()
	}
	if e.State() != state || got != version {
		k.Errorf("%q is %s in version %q, want %s in %q", key, e.State(), got, state, version)
	}
}

var prodX, testX = words.Locator("x{env=prod}"), words.Locator("x{env=test}")

// A resource without constraints is for clients with parameters, and for those of its aliases; nobody need ask for
// its plain name.
func TestVariantWithoutConstraints_DYN1_RES10(t *testing.T) {
	k := asked(t, Source{}, prodX, "alias")
	seen := new(counts)
	k.store.cache.observer = seen
	k.says(WholeType, "+x@1")
	k.is(prodX, Present, "1")
	k.says(WholeType, "+x@2|alias")
	k.is(prodX, Present, "2")
	k.is("alias", Present, "2")
	k.says(WholeType, "+x@2|alias", "+nobody@1")
	if !slices.Equal(seen.unsolicited, []int{1}) {
		t.Errorf("%v resources came unasked", seen.unsolicited)
	}
	k.sends("-x")
	k.is(prodX, Absent, "")
	k.is("alias", Absent, "")
}

// On a new stream a variant may be gone without a word. A removal of the name says so where it can mean only one
// (RES-12).
func TestRemovalOfUnconfirmedVariant_DYN1_RES12(t *testing.T) {
	for _, tc := range []struct {
		name  string
		names []string
		want  State
	}{
		{"of the only one", []string{prodX}, Absent},
		{"of one of two", []string{prodX, testX}, Present},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := asked(t, Source{}, tc.names...)
			k.sends("x[env=prod]@1", "x[env=test]@1")
			k.store.Session().Restart(stream(WholeType), 0)
			k.says(WholeType, "-x")
			for _, name := range tc.names {
				if is := k.named(name).State(); is != tc.want {
					t.Errorf("%q is %s", name, is)
				}
			}
		})
	}
}

// What comes for clients with parameters renews no ttl of the plain name (TTL-3), and takes back no error of it
// (ERR-1).
func TestOtherVariantLeavesPlainName_DYN1(t *testing.T) {
	k := asked(t, Source{}, "x", prodX)
	k.sends("x@1~10s")
	k.sends("x[env=prod]@2")
	k.is("x", Present, "1")
	if n := k.named("x").Lifetime().Number(); n != 0 {
		t.Errorf("TTL-3: it had the heartbeat %d", n)
	}

	member := words.Locator(name + "{env=prod}")
	k = newKept(t)
	k.listener(NeedsStream).follow(glob)
	k.listener(NeedsStream).watch(member)
	k.demand(WholeType)
	k.fails(name+"@", codes.Unavailable)
	k.sends(name + "[env=prod]@1")
	k.is(member, Present, "1")
	if k.store.FindTable(cds, ByName).Collection(glob).errors.get(name) == nil {
		t.Error("ERR-1: the member's error is gone")
	}
}

// When the variant of the plain name is removed, another one that matches takes its place.
func TestNextVariantOfPlainName_DYN1(t *testing.T) {
	k := asked(t, Source{}, "x", prodX)
	k.sends("x@1", "x[!env]@2")
	k.is("x", Present, "1")
	k.sends("-x")
	k.is("x", Present, "2")
}

// A variant that was sent before the server has read a subscription may be another one's: it is no answer.
func TestVariantOfOthers_DYN1(t *testing.T) {
	k := asked(t, Source{}, prodX)
	variants := &k.store.FindTable(cds, ByName).variants
	if k.sends("x[env=test]@1"); !variants.borrows(k.named(prodX)) {
		t.Error("the variant of others counts as an answer")
	}
	if k.sends("x[env=prod]@1"); variants.borrows(k.named(prodX)) {
		t.Error("its own variant counts as no answer")
	}
}

// What the relay knows of a name with parameters stays when variants of others come and go. It ends when the server
// says that there is no resource for it.
func TestVariantsOfOthersComeOrGo_DYN1(t *testing.T) {
	for _, tc := range []struct {
		name            string
		before          func(k *kept)
		other, noneLeft State
	}{
		{"unknown", func(*kept) {}, Unknown, Absent},
		{"failed", func(k *kept) { k.fails("x[env=prod]@", codes.Unavailable) }, Failed, Absent},
		{"removed in vain", func(k *kept) { k.fails("x[env=prod]@", codes.NotFound) }, Failed, Absent},
		{"there", func(k *kept) { k.sends("x[env=prod]@1") }, Present, Present},
		{"not there any more, with an error that leaves it open", func(k *kept) {
			k.sends("x[env=prod]@1")
			k.sends("-x[env=prod]@")
			k.fails("x[env=prod]@", codes.Unavailable)
		}, Present, Absent},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := asked(t, Source{Absent: time.Hour}, prodX, testX)
			k.sends("x[env=test]@1")
			tc.before(k)
			for _, other := range []string{"x[env=test]@2", "-x[env=test]@"} {
				k.sends(other)
				if is := k.named(prodX).State(); is != tc.other {
					t.Errorf("behind %s it is %s, want %s", other, is, tc.other)
				}
			}
			k.says(WholeType, "-x")
			if is := k.named(prodX).State(); is != tc.noneLeft {
				t.Errorf("without the resource it is %s, want %s", is, tc.noneLeft)
			}
		})
	}
}

// The server is asked again for a variant that it sent before and that is not kept, for those who were not handed it
// (TTL-5).
func TestVariantNotKept_DYN1_TTL5(t *testing.T) {
	k := asked(t, Source{}, prodX)
	k.sends("x[env]@1!")
	k.is(prodX, Transient, "1")
	k.listener(NeedsStream).watch(testX)
	k.demand(WholeType)
	k.sends("x[version=v1]@2")
	for key, want := range map[string]bool{prodX: false, testX: true} {
		if i := k.named(key).extra.demand; i.again != want {
			t.Errorf("the server is asked again for %q: %t", key, i.again)
		}
	}
}
