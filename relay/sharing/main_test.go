package sharing

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func metadata(t testing.TB, fields map[string]any) *structpb.Struct {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func BenchmarkSurvey(b *testing.B) {
	set := compile(b, 0, sidecars()...)
	s := NewSurvey(Options{Policy: set.Policy(), Unmentioned: set.Unmentioned})
	node := sidecar(b, "a", "a")
	for b.Loop() {
		subject := set.Subject(node, keyer.Peer{})
		s.Add(node.GetId(), Place(subject, clusterURL, nil, "primary"))
	}
}
