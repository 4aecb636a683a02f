//go:build linux

package main

import (
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// stateOfTheWorld is one update to clients that are sent everything each time.
func stateOfTheWorld() scenario {
	return scenario{
		name: "sotw", title: "The state of the world",
		text: "Clients of the state of the world follow clusters of 1 KiB. One changes, and all clients are sent all of them. " +
			"Allocated is the memory that the server's process allocates per delivery, as a share of the payloads that are delivered: " +
			"1 and more if a response is built for each client, next to nothing if once for all.",
		metrics: append(fanOutMetrics(), report.Metric{Name: "built", Title: "allocated", Form: report.Factor}),
		variants: func(o *options) []variant {
			return o.grid(choice{[]int{1000}, []int{100}}, both(100), listsTo(o))
		},
	}
}

func listsTo(o *options) func(clients, resources int) variant {
	return func(clients, resources int) variant {
		v := singly{
			name: thousands(clients) + " clients, " + thousands(resources) + " resources", clients: clients, state: true,
			updates: updates{items: resources, count: 20, least: 3, limit: 5 * time.Second}, quick: 10,
			set: content.Set{TypeURL: content.ClusterType, Count: resources, Size: payloadSize},
		}.variant(o)
		v.about = 3 * time.Second
		// A copy for each client would be all of it.
		v.bars = []report.Bar{atMost("built", 0.1)}
		return v
	}
}
