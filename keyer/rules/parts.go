package rules

import (
	"reflect"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"google.golang.org/protobuf/types/known/structpb"
)

// jsonOf gives a value as encoding/json would read it: what JSON has no word for as text,
// as scopes have it.
func jsonOf(value ref.Val) any {
	switch v := value.(type) {
	case types.String:
		return string(v)
	case types.Bool:
		return bool(v)
	case types.Double:
		return float64(v)
	case *types.Optional:
		if !v.HasValue() {
			return nil
		}
		return jsonOf(v.GetValue())
	}
	if native, err := value.ConvertToNative(reflect.TypeFor[*structpb.Value]()); err == nil {
		return native.(*structpb.Value).AsInterface()
	}
	text, err := appendValue(nil, value, 0)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
