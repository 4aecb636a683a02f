package rules_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

func TestRegularExpressions(t *testing.T) {
	node := &corev3.Node{Id: `gw-web-17.eu-1`, Cluster: "aaa"}
	for _, tc := range []struct{ part, want string }{
		{`node.id.matches("^gw-")`, `r[true]`},
		{`matches(node.id, "^web-")`, `r[false]`},
		{`regex.replace(node.id, "-[0-9]+", "")`, `r["gw-web.eu"]`},
		{`regex.replace(node.id, "-[0-9]+", "", 1)`, `r["gw-web.eu-1"]`},
		{`regex.replace(node.id, "-[0-9]+", "", 0)`, `r["gw-web-17.eu-1"]`},
		{`regex.replace(node.id, "-[0-9]+", "", -7)`, `r["gw-web.eu"]`},
		{`regex.replace(node.id, "^(gw)-(web)-.*$", r"\2/\1/\0")`, `r["web/gw/gw-web-17.eu-1"]`},
		{`regex.replace(node.id, "^(x)?gw.*", r"[\1]\\")`, `r["[]\\"]`},
		{`regex.replace(node.cluster, "", "-")`, `r["-a-a-a-"]`},
		{`regex.replace(node.cluster, "x", "-")`, `r["aaa"]`},
		{`regex.extract(node.id, "[0-9]+")`, `r[optional.of("17")]`},
		{`regex.extract(node.id, "-([a-z]+)-")`, `r[optional.of("web")]`},
		{`regex.extract(node.id, "gw(x*)")`, `r[optional.none()]`},
		{`regex.extract(node.id, "xyz")`, `r[optional.none()]`},
		{`regex.extractAll(node.id, "[0-9]+")`, `r[["17","1"]]`},
		{`regex.extractAll(node.id, "-([0-9]*)")`, `r[["17","1"]]`},
		{`regex.extractAll(node.id, "xyz")`, `r[[]]`},
	} {
		t.Run("AGG-1 "+tc.part, func(t *testing.T) {
			if got, err := scopeBy(t, node, tc.part); got != tc.want || err != nil {
				t.Errorf("scope %s, %v, want %s", got, err, tc.want)
			}
		})
	}

	// OPS-5: what is tried on regular expressions has bounds.
	long := &corev3.Node{Id: strings.Repeat("a", 16<<10+1)}
	_, err := scopeBy(t, long, `node.id.matches("(a*)*b")`)
	const want = `aggregation rule "r" fails: scope[0]: node.id.matches("(a*)*b"): a text of 16385 bytes is too long for a regular expression: at most 16384`
	if err == nil || err.Error() != want {
		t.Errorf("OPS-5: %v, want %s", err, want)
	}
}
