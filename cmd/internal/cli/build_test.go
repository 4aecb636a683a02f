package cli

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestNewBuild(t *testing.T) {
	info := func(v string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: v}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
		}}
	}
	for _, tt := range []struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"", nil, "xdsrelay devel\nbuilt by "},
		{"", info("(devel)"), "xdsrelay devel\ncommit   abc, modified, 2026-01-02T03:04:05Z\nbuilt by "},
		{"", info("v1.0.0"), "xdsrelay v1.0.0\n"},
		{"v1.0.1", info("v1.0.0"), "xdsrelay v1.0.1\n"},
	} {
		var s strings.Builder
		if err := newBuild(tt.linked, tt.info).Text(&s, "xdsrelay"); err != nil || !strings.HasPrefix(s.String(), tt.want) {
			t.Errorf("%q, %v, want %q", s.String(), err, tt.want)
		}
	}
}
