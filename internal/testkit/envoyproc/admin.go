package envoyproc

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Live reports whether the Envoy serves.
func (e *Envoy) Live() bool {
	state, err := e.Get("/ready")
	return err == nil && strings.TrimSpace(state) == "LIVE"
}

// Stats gives the counters and gauges whose names match a regular expression. An Envoy
// that does not answer has none.
func (e *Envoy) Stats(filter string) map[string]int64 {
	var page struct {
		Stats []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"stats"`
	}
	stats := make(map[string]int64)
	if e.read("/stats?format=json&filter="+url.QueryEscape(filter), &page) != nil {
		return stats
	}
	for _, s := range page.Stats {
		if n, err := strconv.ParseInt(string(s.Value), 10, 64); err == nil {
			stats[s.Name] = n
		}
	}
	return stats
}

// Stat gives one counter or gauge, 0 if there is none.
func (e *Envoy) Stat(name string) int64 {
	return e.Stats("^" + strings.ReplaceAll(name, ".", `\.`) + "$")[name]
}

// Config is a resource as the Envoy has it: the fields that tests look at, each where
// its type has it.
type Config struct {
	Name           string `json:"name"`
	ConnectTimeout string `json:"connect_timeout"`

	Version string `json:"-"`
}

// state is one version of a resource in a dump.
type state struct {
	Version  string `json:"version_info"`
	Listener Config `json:"listener"`
}

// dump reads the part of the configuration dump under one name. The elements are given
// to the function as JSON.
func (e *Envoy) dump(resource string, each func(json.RawMessage) error) error {
	var page struct {
		Configs []json.RawMessage `json:"configs"`
	}
	if err := e.read("/config_dump?resource="+resource, &page); err != nil {
		return err
	}
	for _, c := range page.Configs {
		if err := each(c); err != nil {
			return err
		}
	}
	return nil
}

// ActiveClusters are the clusters that came over xDS and serve, by name. Clusters that
// still warm are not among them.
func (e *Envoy) ActiveClusters() map[string]Config { return e.clusters("dynamic_active_clusters") }

// WarmingClusters are the clusters that wait for what they need.
func (e *Envoy) WarmingClusters() map[string]Config { return e.clusters("dynamic_warming_clusters") }

func (e *Envoy) clusters(resource string) map[string]Config {
	found := make(map[string]Config)
	_ = e.dump(resource, func(raw json.RawMessage) error { // an Envoy that does not answer has none
		var c struct {
			Version string `json:"version_info"`
			Cluster Config `json:"cluster"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			return err
		}
		c.Cluster.Version = c.Version
		found[c.Cluster.Name] = c.Cluster
		return nil
	})
	return found
}

// Listeners are the names of the listeners that came over xDS and serve.
func (e *Envoy) Listeners() map[string]Config {
	found := make(map[string]Config)
	_ = e.dump("dynamic_listeners", func(raw json.RawMessage) error { // as in clusters
		var l struct {
			Name   string `json:"name"`
			Active *state `json:"active_state"`
		}
		if err := json.Unmarshal(raw, &l); err != nil {
			return err
		}
		if l.Active != nil {
			found[l.Name] = l.Active.Listener
		}
		return nil
	})
	return found
}

// Addr is the address of a listener, "" if Envoy has none. Envoy's workers may not take
// connections there yet: see [Envoy.Accepts].
func (e *Envoy) Addr(listener string) string {
	var page struct {
		Statuses []struct {
			Name    string  `json:"name"`
			Address address `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if e.read("/listeners?format=json", &page) != nil {
		return ""
	}
	for _, l := range page.Statuses {
		if l.Name == listener {
			return l.Address.String()
		}
	}
	return ""
}

// Accepts reports whether a listener takes connections. It makes one and closes it, so it
// is no request for anything.
func (e *Envoy) Accepts(listener string) bool {
	addr := e.Addr(listener)
	if addr == "" {
		return false
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

type address struct {
	Socket struct {
		Address string `json:"address"`
		Port    int    `json:"port_value"`
	} `json:"socket_address"`
}

// String implements [fmt.Stringer].
func (a address) String() string {
	return net.JoinHostPort(a.Socket.Address, strconv.Itoa(a.Socket.Port))
}

// read decodes a page of JSON.
func (e *Envoy) read(path string, into any) error {
	body, err := e.Get(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
