//go:build linux

package main

import (
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

// stateOfTheWorld is one update to clients that are sent everything each time.
func stateOfTheWorld() scenario {
	return scenario{
		name: "sotw", title: "The state of the world",
		text:    "Clients of the state of the world follow clusters of 1 KiB. One changes, and all clients are sent all of them.",
		metrics: fanOutMetrics(),
		variants: func(o *options) []variant {
			var all []variant
			for _, clients := range o.or(o.clients, []int{1000}, []int{100}) {
				for _, resources := range o.or(o.resources, []int{100}, []int{100}) {
					all = append(all, listsTo(clients, resources))
				}
			}
			return all
		},
	}
}

func listsTo(clients, resources int) variant {
	return singly{
		name: thousands(clients) + " clients, " + thousands(resources) + " resources", clients: clients, state: true,
		updates: updates{items: resources, count: 50, least: 3, limit: 10 * time.Second}, quick: 10,
		set: content.Set{TypeURL: content.ClusterType, Count: resources, Size: payloadSize},
	}.variant()
}
