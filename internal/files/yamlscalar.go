package files

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar gives a scalar as JSON. Dates are no type of JSON's and stay the text
// that they are.
func scalar(n *yaml.Node) (string, *PlaceError) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return quoted(n.Value), nil
	case "!!binary":
		return quoted(strings.Join(strings.Fields(n.Value), "")), nil
	case "!!null":
		return "null", nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return "", errorAt(n, "not what its tag says")
		}
		return plain(v), nil
	default:
		return "", errorAt(n, "a tag that JSON has no type for")
	}
}

// plain gives a bool or a number as JSON, in protobuf's form where JSON has none.
func plain(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		switch {
		case math.IsNaN(v):
			return `"NaN"`
		case math.IsInf(v, 1):
			return `"Infinity"`
		case math.IsInf(v, -1):
			return `"-Infinity"`
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return "null"
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always has a form in JSON
	}
	return string(b)
}
