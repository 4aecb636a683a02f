package relay

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// What is known of whether a control plane can be reached outlives a reload that changes
// how it is reached, and nothing is known of files.
func TestPlane_UPS2(t *testing.T) {
	servers := config.DefaultUpstream()
	servers.Name, servers.Endpoints = "plane", []string{"127.0.0.1:1"}
	p, err := newPlane(servers, nil, nil, upstream.NopObserver{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.upstream.Close()
	if p.outages == nil || p.outage() != (upstream.Outage{}) {
		t.Errorf("outage %+v", p.outage())
	}
	moved, polled, files := servers, servers, servers
	moved.Endpoints, polled.APIType, files.Path = []string{"127.0.0.1:2"}, config.REST, "/x"
	for name, tt := range map[string]struct {
		next config.Upstream
		want bool
	}{"other endpoints": {moved, true}, "another variant": {polled, false}, "files": {files, false}} {
		if got := p.succeeds(&tt.next); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	next, err := newPlane(moved, nil, p.outages, upstream.NopObserver{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.upstream.Close()
	if next.outages != p.outages {
		t.Error("other outages after a reload")
	}
	if (&plane{}).outage() != (upstream.Outage{}) {
		t.Error("a plane without servers is away")
	}
}
