package upstream

import (
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// deliver has a control plane deliver resources of a type, as the answer to a request for them.
func (d *delivered) deliver(t *testing.T, typeURL string, bytes int, names ...string) {
	t.Helper()
	r := &wire.Response{TypeURL: typeURL, State: d.state}
	for _, name := range names {
		res, err := wire.NewResource(&discovery.Resource{Name: name, Version: "1", Resource: &anypb.Any{TypeUrl: typeURL}})
		if err != nil {
			t.Fatal(err)
		}
		r.Resources = append(r.Resources, res)
	}
	if d.state {
		d.listed(streamOf(0), typeURL, names)
	}
	d.take(streamOf(0), r, bytes)
}

// asks checks which type is asked for, and which names; "": none is.
func (d *delivered) asks(t *testing.T, typeURL string, names ...string) *query {
	t.Helper()
	q := d.query()
	switch {
	case q == nil && typeURL != "":
		t.Fatalf("asks for nothing, want %s", typeURL)
	case q != nil && (q.typeURL != typeURL || !slices.Equal(q.names, names)):
		t.Fatalf("asks for %s %q, want %s %q", q.typeURL, q.names, typeURL, names)
	}
	return q
}

// An incremental server is asked for what it delivered and did not take back, for each type in turn.
func TestQueryIncremental_SUR2(t *testing.T) {
	var d delivered
	d.asks(t, "")
	d.deliver(t, clusters, 1, "a", "b")
	d.deliver(t, listeners, 1, "l")
	d.asks(t, clusters, "a", "b")
	d.asks(t, listeners, "l")
	d.asks(t, clusters, "a", "b")
	d.take(streamOf(0), &wire.Response{TypeURL: clusters, Removed: []string{"a"}}, 1)
	d.unsubscribed(streamOf(0), unsub(listeners, "l"))
	d.asks(t, clusters, "b")
	d.asks(t, clusters, "b")
	if !d.has(streamOf(0), sub(clusters, "x", "b")) || !d.has(streamOf(0), sub(clusters, "*")) || d.has(streamOf(0), sub(clusters, "a")) {
		t.Error("what was delivered is not known")
	}
	d.restarted(streamOf(0), []wire.Subscription{sub(listeners, "l")})
	d.asks(t, "")
}

// What an earlier process was delivered is asked for too, until the server delivers something of the type itself.
func TestQueryRestored_SUR1_SUR2(t *testing.T) {
	restored := sub(clusters, "*")
	restored.Versions = map[string]string{"a": wire.Asked, "b": wire.Asked, "c": "1"}
	var d delivered
	d.restarted(streamOf(0), []wire.Subscription{restored, sub(listeners, "l")})
	d.asks(t, clusters, "a", "b")
	d.deliver(t, clusters, 1, "a")
	d.take(streamOf(0), &wire.Response{TypeURL: clusters, Removed: []string{"b"}}, 1)
	d.restarted(streamOf(0), []wire.Subscription{restored})
	d.asks(t, clusters, "a")

	state := delivered{state: true}
	held := sub(clusters, "a")
	held.Held = true
	state.restarted(streamOf(0), []wire.Subscription{held, sub(listeners, "l")})
	state.listed(streamOf(0), clusters, []string{"a"})
	state.listed(streamOf(0), listeners, []string{"l"})
	state.asks(t, clusters, "a")
}

// A resource that may go without the server's word is not asked for.
func TestQueryExpires_SUR2(t *testing.T) {
	var d delivered
	d.deliver(t, clusters, 1, "a")
	res, err := wire.NewResource(&discovery.Resource{
		Name: "a", Version: "2", Resource: &anypb.Any{TypeUrl: clusters}, Ttl: durationpb.New(1e9),
	})
	if err != nil {
		t.Fatal(err)
	}
	d.take(streamOf(0), &wire.Response{TypeURL: clusters, Resources: []*wire.Resource{res}}, 1)
	d.asks(t, "")
}

// A server of the state of the world is asked for the shortest list, with the names that it was asked for together.
func TestQueryState_SUR2(t *testing.T) {
	d := delivered{state: true}
	d.deliver(t, clusters, 100, "a", "b")
	d.deliver(t, endpoints, 50, "a", "b")
	d.asks(t, endpoints, "a", "b")
	d.asks(t, endpoints, "a", "b")
	d.deliver(t, endpoints, 10)
	d.asks(t, clusters, "a", "b")
	beat, err := wire.NewResource(&discovery.Resource{Name: "a", Ttl: durationpb.New(1e9)})
	if err != nil {
		t.Fatal(err)
	}
	d.take(streamOf(0), &wire.Response{TypeURL: endpoints, State: true, Resources: []*wire.Resource{beat}}, 1)
	d.asks(t, clusters, "a", "b") // a heartbeat is no list
}

// What no server answered comes last until there is an answer, and secrets come after the rest (RES-7).
func TestQueryUnanswered_SUR2_RES7(t *testing.T) {
	const secrets = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	for _, state := range []bool{false, true} {
		d := delivered{state: state}
		d.deliver(t, secrets, 1, "s")
		d.deliver(t, clusters, 2, "a")
		if other := d.unanswered(d.asks(t, clusters, "a")); !other {
			t.Error("secrets are something else")
		}
		if other := d.unanswered(d.asks(t, secrets, "s")); other {
			t.Error("there is nothing else")
		}
		d.asks(t, clusters, "a")
		d.deliver(t, secrets, 1, "s")
		d.asks(t, secrets, "s")
	}
}
