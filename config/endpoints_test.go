package config

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestEndpointsJSON(t *testing.T) {
	want := Endpoints{{"a:1", "b:1"}, {"c:1"}}
	data, err := json.Marshal(want)
	if err != nil || string(data) != `[["a:1","b:1"],"c:1"]` {
		t.Fatalf("%s, %v", data, err)
	}
	var got Endpoints
	if err := json.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{`"a:1"`, `[1]`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s is taken for %v", bad, got)
		}
	}
}
