//go:build linux

package main

import (
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// payloadSize is the size of payloads where nothing else is said.
const payloadSize = 1 << 10

// fanOut is one update to many clients.
func fanOut() scenario {
	return scenario{
		name: "fanout", title: "One update to everybody",
		text: "Incremental clients follow all resources, of 1 KiB. " +
			"One resource changes, and the next one as soon as all clients have that and the server is at rest with their acknowledgements. " +
			"The last client, p50 and p99 are those of each update over the clients; what a run comes to is the median of its updates.",
		metrics: fanOutMetrics(),
		variants: func(o *options) []variant {
			return o.grid(choice{[]int{100, 1000, 5000, mostClients}, []int{100, 1000}}, both(byClients), fanOutTo(o))
		},
	}
}

// byClients stands for a number of resources that depends on that of clients.
const byClients = 0

// compared is the number of clients, and of resources, at which the relay is compared with
// go-control-plane's caches.
const compared = 1000

func fanOutTo(o *options) func(clients, resources int) variant {
	return func(clients, resources int) variant {
		if resources == byClients {
			resources = 1000
			if clients > 1000 {
				resources = 100
			}
		}
		v := singly{
			name: thousands(clients) + " clients, " + thousands(resources) + " resources", clients: clients,
			updates: updates{items: resources, count: min(100, max(10, 50_000/clients)), least: 3, limit: 5 * time.Second}, quick: 10,
			set: content.Set{TypeURL: content.ClusterType, Count: resources, Size: payloadSize},
		}.variant(o)
		v.about = 4 * time.Second
		if clients >= 1000 {
			v.bars = []report.Bar{toBaseline("last", 1.5), toBaseline("cpu", 1.5)}
		}
		if clients == compared && resources == compared {
			v.others = others{allRuns, 10 * time.Second}
			for _, kind := range []server.Kind{server.Linear, server.Snapshot} {
				v.bars = append(v.bars, report.Bar{Server: string(kind), Metric: "last", Base: string(server.Relay), Limit: 5, AtLeast: true})
			}
		}
		return v
	}
}
