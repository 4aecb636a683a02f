package relay

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// unjudged does not judge one use of names.
type unjudged struct {
	downstream.Access

	off downstream.Use
}

func (u unjudged) Allows(use downstream.Use, typeURL, name string) bool {
	return use == u.off || u.Access.Allows(use, typeURL, name)
}

// entriesFree does not judge inline entries of lists.
type entriesFree struct{ downstream.Access }

func isEntry(name string) bool { return strings.Contains(name, "#entry=") }

func (e entriesFree) Allows(use downstream.Use, typeURL, name string) bool {
	return isEntry(name) || e.Access.Allows(use, typeURL, name)
}

func (e entriesFree) Subscribes(typeURL, spelling string) error {
	if isEntry(spelling) {
		return nil
	}
	return e.Access.Subscribes(typeURL, spelling)
}

// ofNobody has rules look at a client of whom nothing is known.
func ofNobody(a downstream.Access) downstream.Access {
	known, is := a.(*access)
	if !is { // there are no rules
		return a
	}
	r := known.routes
	return &access{routes: &routes{router: r.router, plan: r.plan, node: r.node, peer: &keyer.Peer{Listener: r.peer.Listener}}}
}

// leakChecks are what keeps clients from what their rules deny, taken out one by one. The checks of what is
// told of members and versions are taken out in package delivery.
func leakChecks() map[string]leakWithout {
	return map[string]leakWithout{
		"subscriptions": {judge: func(a downstream.Access) downstream.Access { return blind{a} }},
		"content": {
			judge:  func(a downstream.Access) downstream.Access { return unjudged{a, delivery.Content} },
			wishes: []leakWish{wishAll, wishAlias, wishGlob},
		},
		"aliases": {
			judge:  func(a downstream.Access) downstream.Access { return unjudged{a, delivery.Alias} },
			wishes: []leakWish{wishAll, wishCluster, wishAlias},
		},
		"entries": {judge: func(a downstream.Access) downstream.Access { return entriesFree{a} }, wishes: []leakWish{wishEntry, wishNamed}},
		"peers":   {judge: ofNobody},
		"secrets": {config: func(c *config.Config) { c.Types.Secret = []string{} }, wishes: []leakWish{wishSecret}},
	}
}

// Whatever form clients are of, the property fails with any one of the checks taken out.
func TestAccessLeakShows_ACC3(t *testing.T) {
	for name, without := range leakChecks() {
		for _, form := range leakForms() {
			if name == "aliases" && form.kind != changes && !form.wrapped {
				continue // such a client is told of none
			}
			t.Run(name+"/"+form.String(), func(t *testing.T) {
				without.forms = []leakForm{form}
				showsLeak(t, without)
			})
		}
	}
}

// showsLeak looks for a schedule that shows what is missing.
func showsLeak(t *testing.T, without leakWithout) {
	t.Helper()
	for seed := range uint64(200) {
		if wrong := playLeak(t, seed, without); wrong != "" {
			t.Logf("seed %d: %.400s", seed, wrong)
			return
		}
	}
	t.Error("no schedule shows that the check is missing")
}
