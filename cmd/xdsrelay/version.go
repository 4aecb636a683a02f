package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker: -ldflags '-X main.version=v1.2.3'.
var version string

// build says what program this is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified"`       // there were changes that are in no commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild describes the running program.
func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return newBuild(version, info)
}

// newBuild puts together what the linker was told and what the toolchain has
// noted; info may be nil.
func newBuild(linked string, info *debug.BuildInfo) build {
	b := build{Version: linked, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show what program this is",
		Args:  cobra.NoArgs,
	}
	output := outputFlag(cmd, "`format`: text or json")
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if output.value == formatJSON {
			return printJSON(cmd.OutOrStdout(), thisBuild())
		}
		return thisBuild().text(cmd.OutOrStdout())
	})
	return cmd
}

func (b build) text(w io.Writer) error {
	s := fmt.Sprintf("xdsrelay %s\n", b.Version)
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
