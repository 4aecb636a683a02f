package metrics

import (
	"runtime"
	"runtime/debug"
)

// buildInfo shows the running version. Its value is always 1.
func buildInfo(s *set, version string) {
	s.gauge("", "build_info", "Version of xdsrelay and of Go; always 1.", "version", "goversion").
		WithLabelValues(version, runtime.Version()).Set(1)
}

// buildVersion is the main module's version, "devel" if it has none.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
