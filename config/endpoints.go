package config

import (
	"encoding/json"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Endpoints are the servers of an upstream: host:port in order of priority (LOC-6). Those of
// one element are of equal priority, and the scopes spread over them. In the file an element
// is a string, or a list of strings.
type Endpoints [][]string

// endpoints reads the servers of an upstream.
func (d *decoder) endpoints(n *yaml.Node, path string) Endpoints {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" {
		d.fail(n, path, "expected a list, got %s", describe(n))
		return nil
	}
	all := make(Endpoints, len(n.Content))
	for i, m := range n.Content {
		at := element(path, i)
		d.from[at] = origin{d.file, m.Line, m.Column}
		if m.Kind == yaml.SequenceNode && m.ShortTag() == "!!seq" {
			all[i] = d.equals(m, at)
		} else {
			all[i] = []string{d.endpoint(m, at, "host:port, or a list of them")}
		}
	}
	return all
}

// equals reads servers of equal priority.
func (d *decoder) equals(n *yaml.Node, path string) []string {
	if len(n.Content) == 0 {
		d.fail(n, path, "expected at least one host:port, got an empty list")
	}
	group := make([]string, len(n.Content))
	for i, m := range n.Content {
		at := element(path, i)
		d.from[at] = origin{d.file, m.Line, m.Column}
		group[i] = d.endpoint(m, at, "host:port")
	}
	return group
}

// endpoint reads one server.
func (d *decoder) endpoint(n *yaml.Node, path, expected string) string {
	if scalarTag(n) != "!!str" {
		d.fail(n, path, "expected %s, got %s", expected, describe(n))
		return ""
	}
	return n.Value
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// shown gives the servers as the file has them.
func (e Endpoints) shown() []any {
	list := make([]any, len(e))
	for i, group := range e {
		if list[i] = group; len(group) == 1 {
			list[i] = group[0]
		}
	}
	return list
}

// MarshalYAML gives the servers as the file has them.
func (e Endpoints) MarshalYAML() (any, error) { return e.shown(), nil }

// MarshalJSON gives the servers as the file has them.
func (e Endpoints) MarshalJSON() ([]byte, error) { return json.Marshal(e.shown()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Endpoints) UnmarshalJSON(data []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*e = make(Endpoints, len(list))
	for i, one := range list {
		var single string
		if json.Unmarshal(one, &single) == nil {
			(*e)[i] = []string{single}
		} else if err := json.Unmarshal(one, &(*e)[i]); err != nil {
			return err
		}
	}
	return nil
}

// endpoints checks the servers of an upstream.
func (k *checker) endpoints(path string, all Endpoints) {
	if len(all) == 0 {
		k.fail(path, "expected at least one host:port, or a path")
	}
	first := make(map[string]string)
	for i, group := range all {
		if len(group) == 0 {
			k.fail(element(path, i), "expected at least one host:port, got an empty list")
		}
		for j, e := range group {
			at := element(path, i)
			if _, list := k.from[element(at, 0)]; list || len(group) > 1 {
				at = element(at, j)
			}
			k.address(at, e, connecting)
			if taken, again := first[e]; again {
				k.fail(at, "%q is already listed as %s", e, taken)
				continue
			}
			first[e] = at
		}
	}
}
