package main

import (
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func TestUnserved_SUR8(t *testing.T) {
	s := admin.Session{
		Unanswered: []string{resource.ListenerType}, Unavailable: []string{resource.SecretType}, Refused: map[string]string{resource.RouteType: "no routes here"},
	}
	const want = "lds never answered; sds has no service; rds refused: no routes here"
	if got := unserved(&s); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
