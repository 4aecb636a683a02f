//go:build linux

package main

import (
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// collections is one change in collections of several sizes.
func collections() scenario {
	return scenario{
		name: "collections", title: "One change in a large collection",
		text: "Incremental clients follow a collection of resources of 256 bytes, of which one changes at a time. " +
			"What a change takes is shown as ratio to the baseline, and to the same server with the smallest collection.",
		metrics: []report.Metric{
			{Name: "last", Title: "last client", Form: report.Ratio},
			{Name: "cpu", Title: "CPU per change", Form: report.Ratio},
			{Name: "last by size", Title: "last client, by size", Form: report.Growth, Of: "last"},
			{Name: "cpu by size", Title: "CPU, by size", Form: report.Growth, Of: "cpu"},
		},
		variants: func(o *options) []variant {
			return o.grid(both(10), choice{[]int{1000, 10_000, largeCollection}, []int{100, 1000}}, changeIn(o))
		},
	}
}

// largeCollection is the number of resources that nothing may grow with.
const largeCollection = 100_000

func changeIn(o *options) func(clients, resources int) variant {
	return func(clients, resources int) variant {
		v := singly{
			name: "1 of " + thousands(resources) + " to " + thousands(clients) + " clients", clients: clients,
			updates: updates{items: min(resources, 1000), count: 200, least: 5, limit: 5 * time.Second}, quick: 20,
			set:       content.Set{TypeURL: content.ClusterType, Count: resources, Size: 256},
			perUpdate: true,
		}.variant(o)
		v.about = 5 * time.Second
		if resources == largeCollection {
			v.bars = []report.Bar{atMost("last by size", 1.2), atMost("cpu by size", 1.2)}
		}
		return v
	}
}
