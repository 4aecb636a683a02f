package controlplanes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
)

// held is a resource as an Envoy has it.
type held struct {
	version string // "" where the dump has none
	content string // JSON
}

// holdings are the resources of an Envoy, by kind and name.
type holdings map[string]held

// lists are the parts of Envoy's configuration dump that come over xDS, with the field that
// has the resource in each element.
func lists() map[string]string {
	return map[string]string{
		"dynamic_active_clusters": "cluster", "dynamic_listeners": "listener", "dynamic_route_configs": "route_config",
		"dynamic_endpoint_configs": "endpoint_config", "dynamic_active_secrets": "secret",
	}
}

// holdingsOf reads what an Envoy has; nil if it does not answer, or has something that is not
// in use yet, or that it rejected.
func holdingsOf(e *envoyproc.Envoy) holdings {
	page, err := e.Get("/config_dump?include_eds")
	if err != nil {
		return nil
	}
	var dump struct {
		Configs []map[string]json.RawMessage `json:"configs"`
	}
	if json.Unmarshal([]byte(page), &dump) != nil {
		return nil
	}
	all := make(holdings)
	for _, part := range dump.Configs {
		for list, raw := range part {
			if strings.HasPrefix(list, "dynamic_warming") {
				return nil
			}
			if field := lists()[list]; field != "" && !all.add(field, raw) {
				return nil
			}
		}
	}
	return all
}

// add takes the elements of one list.
func (h holdings) add(field string, raw json.RawMessage) bool {
	var elements []map[string]any
	if json.Unmarshal(raw, &elements) != nil {
		return false
	}
	for _, e := range elements {
		if field == "listener" {
			if e["error_state"] != nil || e["warming_state"] != nil {
				return false
			}
			e, _ = e["active_state"].(map[string]any)
		}
		resource, ok := e[field].(map[string]any)
		if !ok {
			return false
		}
		name := resource["name"]
		if name == nil {
			name = resource["cluster_name"] // of endpoints
		}
		content, err := json.Marshal(resource)
		if err != nil {
			return false
		}
		version, _ := e["version_info"].(string)
		h[fmt.Sprintf("%s %v", field, name)] = held{version: version, content: string(content)}
	}
	return true
}

// forgetVersions drops the versions of a kind of resource.
func (h holdings) forgetVersions(kind string) {
	for name, r := range h {
		if strings.HasPrefix(name, kind+" ") {
			h[name] = held{content: r.content}
		}
	}
}

// mentions reports whether a resource has the text.
func (h holdings) mentions(text string) bool {
	for _, r := range h {
		if strings.Contains(r.content, text) {
			return true
		}
	}
	return false
}

// differences tell what other has otherwise than h. Where a server gives its resources no
// version, the relay's is its own.
func (h holdings) differences(other holdings) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		mine, theirs := h[name], other[name]
		switch {
		case theirs.content == "":
			found = append(found, name+" is missing")
		case mine.content != theirs.content:
			found = append(found, name+" has other content: "+theirs.content)
		case mine.version != "" && mine.version != theirs.version:
			found = append(found, fmt.Sprintf("%s has version %q, not %q", name, theirs.version, mine.version))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(other)) {
		if _, ok := h[name]; !ok {
			found = append(found, name+" is there")
		}
	}
	return found
}
