package upstream

import (
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Names with parameters go out as locators, beside names, and count for the limit.
func TestDYN1RES17Requests(t *testing.T) {
	sub := wire.Subscription{TypeURL: "T", Subscribe: []string{"plain"}, Unsubscribe: []string{wire.Locator("gone", map[string]string{"env": "prod"})}}
	for i := range 100 {
		sub.Subscribe = append(sub.Subscribe, wire.Locator("x", map[string]string{"env": fmt.Sprintf("%0100d", i)}))
	}
	const limit = 2000
	located, names, unsubscribed := 0, 0, 0
	for i, req := range requests(sub, 0, limit) {
		if size := proto.Size(req); size > limit {
			t.Errorf("RES-17: request %d has %d bytes of %d", i, size, limit)
		}
		located += len(req.GetResourceLocatorsSubscribe())
		names += len(req.GetResourceNamesSubscribe())
		unsubscribed += len(req.GetResourceLocatorsUnsubscribe())
	}
	if located != 100 || names != 1 || unsubscribed != 1 {
		t.Errorf("%d locators, %d names, %d locators to be let go", located, names, unsubscribed)
	}
}

// In the state of the world a request says all names and all locators.
func TestDYN1STR9StateRequests(t *testing.T) {
	d := &stateDialect{types: make(map[string]*stateType), round: 1}
	word := wire.Locator("x", map[string]string{"env": "prod"})
	out := d.subscribe(wire.Subscription{TypeURL: "T", Subscribe: []string{"plain", word}}, 0, 1<<20)
	if len(out) != 1 {
		t.Fatalf("%d requests", len(out))
	}
	answer := d.answer(envelope{typeURL: "T", nonce: "1", version: "1"}, nil)
	for _, r := range []request{out[0], answer} {
		state := r.(*discoveryv3.DiscoveryRequest)
		if names, locators := state.GetResourceNames(), state.GetResourceLocators(); len(names) != 1 || len(locators) != 1 ||
			locators[0].GetName() != "x" || locators[0].GetDynamicParameters()["env"] != "prod" {
			t.Errorf("asked for %v", r)
		}
	}
	// Asked for again, they are left out once, or nobody would take it for a question.
	if again := d.subscribe(wire.Subscription{TypeURL: "T", Subscribe: []string{word}}, 0, 1<<20); len(again) != 2 ||
		len(again[0].(*discoveryv3.DiscoveryRequest).GetResourceLocators()) != 0 || len(again[1].(*discoveryv3.DiscoveryRequest).GetResourceLocators()) != 1 {
		t.Errorf("asked again with %v", again)
	}
}
