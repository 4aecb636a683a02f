package rules

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// identity is the variable peer: who the client is to TLS. Its address is not part of
// it, which says nothing of who it is and changes with every connection.
type identity struct {
	SPIFFE  string   `cel:"spiffe"`
	Subject string   `cel:"subject"`
	DNS     []string `cel:"dns"`
	URIs    []string `cel:"uris"`
	Emails  []string `cel:"emails"`
	IPs     []string `cel:"ips"`
}

// newEnvironment is what expressions may use: the variables, CEL's standard library, and
// its extensions for strings and regular expressions.
func newEnvironment() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.Types(&corev3.Node{}),
		ext.NativeTypes(identity{}, ext.ParseStructTags(true)),
		cel.Variable("node", cel.ObjectType("envoy.config.core.v3.Node")),
		cel.Variable("type", cel.StringType),
		cel.Variable("name", cel.StringType),
		cel.Variable("peer", cel.ObjectType("rules.identity")),
		cel.Variable("upstream", cel.StringType),
		cel.OptionalTypes(), ext.Strings(), ext.Regex(),
	}
	for _, short := range keyer.ShortNames() {
		options = append(options, cel.Variable(short, cel.StringType))
	}
	return cel.NewEnv(options...)
}
