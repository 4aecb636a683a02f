package downstream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
)

// anywhere has one store for all xdstp names.
type anywhere struct {
	Routes

	store *cache.Store
}

func (anywhere) Access() Access                              { return nil }
func (anywhere) Scoped(string, string) (*cache.Store, error) { return nil, nil }
func (a anywhere) Named(n keyer.Name) (*cache.Store, string, error) {
	return a.store, n.Resolved(), nil
}

func TestDYN1Refusals(t *testing.T) {
	routes := anywhere{store: cache.New(cache.Limits{}, nil).Open(cache.Source{Resolved: true})}
	for _, test := range []struct {
		name, word, want string
	}{
		{"DYN-1 a glob with parameters", wire.Locator(ofA("*"), map[string]string{"env": "prod"}), errLocatedMany.Error()},
		{"DYN-1 the wildcard with parameters", wire.Locator("*", map[string]string{"env": "prod"}), errLocatedMany.Error()},
		{"DYN-1 a name with directives and parameters", wire.Locator(ofA("x")+"#alt="+strings.Replace(ofA("x"), "//a/", "//b/", 1), map[string]string{"env": "prod"}), errLocatedDirective.Error()},
		{"DYN-1 LOC-1 a name of an upstream whose redirects are followed", wire.Locator(ofA("x"), map[string]string{"env": "prod"}), errLocatedFollowed.Error()},
		{"DYN-1 a plain name like a locator", wire.Words([]string{"\x00a=b\x00x"}, nil)[0], errReservedName.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := locate(routes, clusterType, test.word)
			if r := refusal(err); r == nil || r.code != codes.InvalidArgument || r.Error() != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// ABS-4: parameters beyond the limits cost nothing but their name.
func TestDYN1OPS5ABS4Limits(t *testing.T) {
	many := make(map[string]string)
	for i := range 65 {
		many[fmt.Sprint(i)] = "x"
	}
	for name, parameters := range map[string]map[string]string{"too many": many, "a key without a name": {"": "x"}, "too long": {"k": strings.Repeat("x", 4<<10)}} {
		t.Run("DYN-1 ABS-4 "+name, func(t *testing.T) {
			_, _, err := locate(anywhere{}, clusterType, wire.Locator("x", parameters))
			if r := refusal(err); r == nil || r.code != codes.ResourceExhausted {
				t.Errorf("refused with %v", err)
			}
		})
	}
}
