package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// Build describes a program.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified"`       // there were changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild describes the running program. version is the linker's version, or empty.
func ThisBuild(version string) Build {
	info, _ := debug.ReadBuildInfo()
	return newBuild(version, info)
}

// newBuild combines the linker's version and the toolchain's build information, which
// may be nil.
func newBuild(linked string, info *debug.BuildInfo) Build {
	b := Build{Version: linked, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		if v := info.Main.Version; v != "(devel)" {
			b.Version = cmp.Or(b.Version, v)
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(b.Version, "devel")
	return b
}

// Text writes b for people; program is what they call it.
func (b Build) Text(w io.Writer, program string) error {
	s := fmt.Sprintf("%s %s\n", program, b.Version)
	if b.Commit != "" {
		s += "commit   " + b.Commit
		if b.Modified {
			s += ", modified"
		}
		if b.Time != "" {
			s += ", " + b.Time
		}
		s += "\n"
	}
	_, err := fmt.Fprintf(w, "%sbuilt by %s for %s\n", s, b.Go, b.Platform)
	return err
}
