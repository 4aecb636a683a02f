package config

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// YAML gives the whole configuration, defaults included, in the form of the
// file; Parse reads it back. It holds no secret (OPS-6): keys and certificates
// are named by their files only, and upstreams' metadata has its names only: read back, it
// has other values. The node's metadata is shown as it is.
func (c *Config) YAML() ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(c); err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	return b.Bytes(), nil
}

// MarshalYAML gives the word that stands for a first client's node.
func (r RuleNode) MarshalYAML() (any, error) {
	type plain RuleNode
	if r.First {
		return firstNode, nil
	}
	return plain(r), nil
}

// MarshalYAML leaves out the variant where there are files instead of servers:
// Validate refuses both.
func (u Upstream) MarshalYAML() (any, error) {
	type plain Upstream
	if u.Path != "" {
		u.APIType = ""
	}
	return plain(u), nil
}
