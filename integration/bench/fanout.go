//go:build linux

package main

import (
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

// payloadSize is the size of payloads where nothing else is said.
const payloadSize = 1 << 10

// fanOut is one update to many clients.
func fanOut() scenario {
	return scenario{
		name: "fanout", title: "One update to everybody",
		text: "Incremental clients follow all resources, of 1 KiB. " +
			"One resource changes, and the next one as soon as all clients have that and the server is at rest with their acknowledgements.",
		metrics: fanOutMetrics(),
		variants: func(o *options) []variant {
			var all []variant
			for _, clients := range o.or(o.clients, []int{100, 1000, 5000, mostClients}, []int{100, 1000}) {
				resources := 1000
				if clients > 1000 {
					resources = 100
				}
				for _, resources := range o.or(o.resources, []int{resources}, []int{resources}) {
					all = append(all, fanOutTo(clients, resources))
				}
			}
			return all
		},
	}
}

func fanOutTo(clients, resources int) variant {
	return singly{
		name: thousands(clients) + " clients, " + thousands(resources) + " resources", clients: clients,
		updates: updates{items: resources, count: min(100, max(10, 50_000/clients)), least: 3, limit: 10 * time.Second}, quick: 10,
		set: content.Set{TypeURL: content.ClusterType, Count: resources, Size: payloadSize},
	}.variant()
}
