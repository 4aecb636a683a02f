package keyer_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestCanonicalAuthority(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"LOC-3 plain", "some.control.plane:80", "some.control.plane:80"},
		{"LOC-3 empty", "", ""},
		{"LOC-3 encoded", "%61 b", "a%20b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := keyer.CanonicalAuthority(tc.in)
			if err != nil || got != tc.want {
				t.Fatalf("CanonicalAuthority(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
			if n, err := keyer.Parse("xdstp://" + tc.in + "/T/x"); err != nil || n.Authority != got {
				t.Errorf("Parse gives %q, %v, want the same", n.Authority, err)
			}
		})
	}
	for _, in := range []string{"a/b", "a?b", "a#b", "a%2"} {
		if got, err := keyer.CanonicalAuthority(in); err == nil {
			t.Errorf("LOC-3: CanonicalAuthority(%q) = %q, want an error", in, got)
		} else if e, ok := errors.AsType[*keyer.NameError](err); !ok || e.Name != in || e.Offset != 1 {
			t.Errorf("LOC-3: CanonicalAuthority(%q): %v, want byte 1", in, err)
		}
	}
}

func TestAuthorities(t *testing.T) {
	var a keyer.Authorities
	for pattern, owner := range map[string]string{
		"a.example.com": "exact", "*.example.com": "suffix", "*.deep.%65xample.com": "deeper", "": "empty", "*.com:80": "port", "example.com": "itself",
	} {
		if err := a.Claim(pattern, owner); err != nil {
			t.Fatal(err)
		}
	}
	a.Default = "default"
	for _, tc := range []struct{ name, authority, want string }{
		{"LOC-3 by name", "a.example.com", "exact"},
		{"LOC-3 by name, not by the suffix that ends in it", "example.com", "itself"},
		{"LOC-3 by suffix", "b.example.com", "suffix"},
		{"LOC-3 by a suffix further back", "c.b.example.com", "suffix"},
		{"LOC-3 by the longest suffix", "x.deep.example.com", "deeper"},
		{"LOC-3 the asterisk is one character at least", ".deep.example.com", "suffix"},
		{"LOC-3 the suffix alone is not enough", ".example.com", "default"},
		{"LOC-3 the dot counts", "bexample.com", "default"},
		{"LOC-3 the end counts", "b.example.com.", "default"},
		{"LOC-3 case counts", "b.Example.com", "default"},
		{"LOC-3 empty", "", "empty"},
		{"LOC-3 opaque rest", "a/b.com:80", "port"},
		{"LOC-4 nobody's", "example.org", "default"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := a.Owner(tc.authority); got != tc.want {
				t.Errorf("Owner(%q) = %q, want %q", tc.authority, got, tc.want)
			}
		})
	}
	var none keyer.Authorities
	if got := none.Owner("a.b"); got != "" {
		t.Errorf("LOC-4: Owner() = %q, want none", got)
	}
	if got := testing.AllocsPerRun(100, func() { a.Owner("c.b.example.com") }); got != 0 {
		t.Errorf("LOC-3: %v allocations", got)
	}
}

func TestAuthoritiesClaim(t *testing.T) {
	for _, tc := range []struct {
		name, first, second, want string
	}{
		{"LOC-3 name and pattern", "a.example.com", "*.example.com", ""},
		{"LOC-3 suffix of a suffix", "*.b.example.com", "*.example.com", ""},
		{"LOC-3 empty and another", "", "a", ""},
		{"LOC-3 same name", "a", "%61", `authority "a" is claimed by "first" already`},
		{"LOC-3 same pattern", "*.example.com", "*.%65xample.com", `authority "*.example.com" is claimed by "first" already`},
		{"LOC-3 empty twice", "", "", `authority "" is claimed by "first" already`},
		{"LOC-3 asterisk alone", "a", "*", `"*" at byte 0: a pattern ends in a part of an authority`},
		{"LOC-3 asterisk and dot", "a", "*.", `"*." at byte 1: a dot and a part of an authority must follow the asterisk`},
		{"LOC-3 asterisk without dot", "a", "*a.example.com", `at byte 1: a dot and a part`},
		{"LOC-3 asterisk elsewhere", "a", "a.*.com", `at byte 2: a pattern has its asterisk at the beginning`},
		{"LOC-3 two asterisks", "a", "*.*.com", `at byte 2: a pattern has its asterisk at the beginning`},
		{"LOC-3 NAME-3 an encoded asterisk", "a", "%2A.example.com", `an authority with an asterisk in it cannot be claimed`},
		{"LOC-3 NAME-3 an encoded asterisk in a pattern", "a", "*.%2a.com", `an authority with an asterisk in it cannot be claimed`},
		{"LOC-3 not an authority", "a", "*.a/b", `at byte 3: "/" ends an authority`},
		{"LOC-3 bad escape", "a", "*.a%2", `at byte 3: two hexadecimal digits`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var a keyer.Authorities
			if err := a.Claim(tc.first, "first"); err != nil {
				t.Fatal(err)
			}
			err := a.Claim(tc.second, "second")
			if tc.want == "" {
				if err != nil {
					t.Errorf("Claim(%q) = %v, want none", tc.second, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("Claim(%q) = %v, want an error with %q", tc.second, err, tc.want)
			}
			_, isName := errors.AsType[*keyer.NameError](err)
			_, isClaimed := errors.AsType[*keyer.ClaimedError](err)
			if isName == isClaimed {
				t.Errorf("error %#v, want a *NameError or a *ClaimedError", err)
			}
			if got := a.Owner("x.example.com"); got == "second" {
				t.Error("a refused claim counts")
			}
		})
	}
}

// LOC-3: the owner is that of the longest pattern that fits, whatever was claimed
// in whatever order.
func TestPropertyAuthorities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.StringOfN(rapid.SampledFrom([]rune("ab.")), 0, 5, -1)
		var a keyer.Authorities
		claimed := map[string]bool{}
		for range rapid.IntRange(0, 6).Draw(t, "claims") {
			pattern := parts.Draw(t, "authority")
			if rapid.Bool().Draw(t, "pattern") {
				pattern = "*." + pattern
			}
			if a.Claim(pattern, "owner of "+pattern) == nil {
				claimed[pattern] = true
			}
		}
		authority := parts.Draw(t, "asked for")
		want := ""
		if claimed[authority] {
			want = "owner of " + authority
		}
		for i := 1; i < len(authority) && want == ""; i++ {
			if claimed["*"+authority[i:]] {
				want = "owner of *" + authority[i:]
			}
		}
		if got := a.Owner(authority); got != want {
			t.Fatalf("LOC-3: Owner(%q) = %q of %v, want %q", authority, got, claimed, want)
		}
	})
}

func TestAuthorityOf_LOC3(t *testing.T) {
	for _, tt := range []struct{ name, spelling, want string }{
		{"LOC-3 plain", "xdstp://a.example.com:80/T/x", "a.example.com:80"},
		{"LOC-3 empty", "xdstp:///T/x", ""},
		{"LOC-3 NAME-3 decoded as far as may be", "xdstp://%61%20b/T/x", "a%20b"},
		{"LOC-3 a glob", "xdstp://a/T/d/*?k=v", "a"},
		{"LOC-3 an opaque name has none", "a/T/x", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, err := keyer.Key(tt.spelling)
			if err != nil {
				t.Fatal(err)
			}
			if got := keyer.AuthorityOf(key); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if n, err := keyer.Parse(tt.spelling); err == nil && n.Authority != tt.want {
				t.Errorf("the name says %q", n.Authority)
			}
		})
	}
}
