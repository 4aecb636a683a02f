package delivery_test

import (
	"fmt"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const clusters = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// subscribe says what a client's request says.
func subscribe(c *delivery.Place, name string) error {
	key, err := keyer.Key(name)
	if err != nil {
		return err
	}
	c.Update(&delivery.Change{TypeURL: clusters, Subscribe: []cache.Name{{Spelling: name, Key: key}}})
	return nil
}

// answer is a control plane's response with one cluster.
func answer(name, version string) (*wire.Response, error) {
	r, err := wire.NewResource(&discoveryv3.Resource{
		Name: name, Version: version, Resource: &anypb.Any{TypeUrl: clusters},
	})
	if err != nil {
		return nil, err
	}
	return &wire.Response{TypeURL: clusters, Resources: []*wire.Resource{r}}, nil
}

// Two clients ask for one cluster: the control plane is asked once, and what it
// says reaches both.
func Example() {
	store := cache.New(cache.Limits{MaxResources: 100_000, Idle: 10 * time.Minute}, nil).Open(cache.Source{Quiet: 15 * time.Second})

	woken := make(chan int, 2)
	var clients [2]*delivery.Subscriber
	for i := range clients {
		clients[i] = delivery.NewSubscriber(func() { woken <- i }, delivery.Form{})
		if err := subscribe(clients[i].Join(store), "backend"); err != nil {
			fmt.Println(err)
			return
		}
	}

	// The upstream session begins its stream …
	for _, sub := range store.Session().Restart(wire.StreamID{}, 0) {
		fmt.Println("upstream:", sub.Subscribe)
	}
	// … and puts what it receives into the store.
	response, err := answer("backend", "v1")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := store.Session().Apply(wire.StreamID{}, response, time.Now()); err != nil {
		fmt.Println("NACK:", err)
		return
	}

	for range clients {
		i := <-woken
		c := clients[i]
		acknowledged := func(string) delivery.Acks { return delivery.Acknowledged }
		batches, left, err := c.Collect(&delivery.Pace{Acks: acknowledged, Size: 1 << 20, Parts: 8})
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, b := range batches {
			fmt.Println("client", i, "gets", b.Body.Resources(), "of rank", b.Rank, "more:", left.More)
		}
		c.Leave()
	}
	// Output:
	// upstream: [backend]
	// client 0 gets 1 of rank 0 more: false
	// client 1 gets 1 of rank 0 more: false
}

// A client that was there before says what it holds, and is not sent it again.
func ExamplePlace_Update() {
	store := cache.New(cache.Limits{}, nil).Open(cache.Source{Quiet: 15 * time.Second})
	c := delivery.NewSubscriber(func() {}, delivery.Form{})
	defer c.Leave()
	c.Join(store).Update(&delivery.Change{
		TypeURL:   clusters,
		Subscribe: []cache.Name{{Spelling: "backend", Key: "backend"}},
		Versions:  wire.NewVersions(map[string]string{"backend": "v1"}),
	})
	store.Session().Restart(wire.StreamID{}, 0)
	for _, version := range []string{"v1", "v2"} {
		response, err := answer("backend", version)
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := store.Session().Apply(wire.StreamID{}, response, time.Now()); err != nil {
			fmt.Println("NACK:", err)
			return
		}
		acknowledged := func(string) delivery.Acks { return delivery.Acknowledged }
		batches, _, err := c.Collect(&delivery.Pace{Acks: acknowledged, Size: 1 << 20, Parts: 8})
		fmt.Println(version, len(batches), err)
	}
	// Output:
	// v1 0 <nil>
	// v2 1 <nil>
}
