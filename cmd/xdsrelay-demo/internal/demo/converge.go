package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Difference is one resource of which a client does not hold what the control
// plane has.
type Difference struct {
	Client   int    `json:"client"`
	TypeURL  string `json:"type_url"`
	Name     string `json:"name"`
	Held     string `json:"held"`     // version; "" if it holds none
	Expected string `json:"expected"` // version; "" if there is none
}

// String gives it for people, with the beginnings of the versions.
func (d Difference) String() string {
	state := func(version string) string {
		if version == "" {
			return "nothing"
		}
		return version[:min(8, len(version))]
	}
	kind := d.TypeURL[strings.LastIndexByte(d.TypeURL, '.')+1:]
	return fmt.Sprintf("client %d: %s %s: holds %s, expected %s", d.Client, kind, d.Name, state(d.Held), state(d.Expected))
}

// differences compares what a client holds, name by name and version by version,
// with what it should.
func (c *client) differences(t truth) []Difference {
	t = t.of(c.wanted)
	return append(c.compare(clusterType, t.clusters), c.compare(endpointType, t.endpoints)...)
}

func (c *client) compare(typeURL string, expected map[string]string) []Difference {
	held := c.Versions(typeURL)
	if maps.Equal(held, expected) {
		return nil
	}
	names := maps.Clone(expected)
	maps.Copy(names, held)
	var all []Difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if held[name] != expected[name] {
			all = append(all, Difference{c.number, typeURL, name, held[name], expected[name]})
		}
	}
	return all
}

// converge waits until every client holds the truth, at most until ctx ends, and
// gives those that do not.
func (f *fleet) converge(ctx context.Context, t truth) []*client {
	const pause = 20 * time.Millisecond
	rest := slices.Clone(f.clients)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		rest = slices.DeleteFunc(rest, func(c *client) bool { return len(c.differences(t)) == 0 })
		if len(rest) == 0 {
			return nil
		}
		select {
		case <-timer.C:
			timer.Reset(pause)
		case <-ctx.Done():
			return rest
		}
	}
}
