// Package nodefile reads a node, as envoy.config.core.v3.Node, from YAML or JSON: for
// commands that present one, and for the tests of aggregation rules. A field that the
// message does not have is an error, and errors know their place.
package nodefile
