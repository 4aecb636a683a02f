package integration

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
)

// The folders of the control planes in processes of their own.
const (
	javaPlaneFolder = "testdata/javacontrolplane"
	gcp0103Folder   = "testdata/gcp0103"
)

// foreignKind is a library for control planes, with a program of testdata around it.
type foreignKind struct {
	name string
	// missing says what this machine lacks for it; nil: nothing.
	missing func() error
	command []string
}

func foreignKinds() []foreignKind {
	return []foreignKind{
		{
			// Over SotW it takes nothing but an empty request for a wildcard, and answers no
			// request over ADS that names one thing that does not exist. In the incremental
			// form clusters and listeners are always a wildcard; it ignores
			// initial_resource_versions, and names that do not exist are not answered.
			// Resources have other versions after each start.
			name: "java-control-plane", missing: missingJavaPlane,
			command: javaCommand(javaPlaneFolder, "server"),
		},
		{
			// It takes nothing but an empty first request for a wildcard, in either form.
			name: "go-control-plane 0.10.3", missing: missingGCP0103,
			command: []string{gcp0103Folder + "/target/server"},
		},
	}
}

func missingJavaPlane() error { return missingJavaProgram(javaPlaneFolder) }

func missingGCP0103() error {
	if _, err := os.Stat(gcp0103Folder + "/target/server"); errors.Is(err, fs.ErrNotExist) {
		return errors.New("integration/" + gcp0103Folder + " is not built: make integration builds it")
	}
	return nil
}

// missingJavaProgram looks for the mark that a finished build leaves.
func missingJavaProgram(folder string) error {
	if _, err := exec.LookPath("java"); err != nil {
		return errors.New("java is not in PATH: install a JDK, 17 or newer")
	}
	if _, err := os.Stat(folder + "/target/built"); errors.Is(err, fs.ErrNotExist) {
		return errors.New("integration/" + folder + " is not built: make integration builds it")
	}
	return nil
}

// javaCommand runs a Java program of testdata so that it starts fast: with the
// archive of classes that the build made, and a compiler that does not optimize.
// The Java virtual machine logs to standard error: it takes standard output
// otherwise.
func javaCommand(folder, name string) []string {
	program := folder + "/target/" + name
	return []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:SharedArchiveFile=" + program + ".jsa",
		"-Xlog:disable", "-Xlog:all=warning:stderr", "-jar", program + ".jar",
	}
}

// servers are the control plane by itself, which shows what it can do, and relays
// that ask it in either form.
func (k foreignKind) servers() []xdsServer {
	direct := xdsServer{name: k.name, plane: func(t testing.TB) managementServer {
		t.Helper()
		return newForeignPlane(t, k.command...)
	}}
	return []xdsServer{direct, direct.behind(upDeltaADS), direct.behind(upSotwADS)}
}

// TestForeignControlPlanes has clients at control planes that are made with other
// libraries than those of the other tests: gRPC clients, and xDS clients that ask
// for everything.
func TestForeignControlPlanes(t *testing.T) {
	r := newReport(t)
	known := foreignFaults()
	var names []string
	for _, kind := range foreignKinds() {
		rpcs, follows := rpcCases(clientKinds()[0], naming{}, kind.servers()), followCases(kind.servers())
		for _, c := range rpcs {
			names = append(names, c.name())
		}
		for _, c := range follows {
			names = append(names, c.name())
		}
		t.Run(kind.name, func(t *testing.T) {
			r.require(t, kind.name, kind.missing)
			playAll(t, r, rpcs, known)
			followAll(t, r, follows, known)
		})
	}
	known.among(t, names)
}

// foreignFaults are what is known to be wrong behind a relay of these control planes.
func foreignFaults() faults { return faults{} }

// followCase is an xDS client that asks for everything, in one form, and a server.
type followCase struct {
	form   wildcardForm
	server xdsServer
}

func followCases(servers []xdsServer) []followCase {
	var cases []followCase
	for _, server := range servers {
		for _, form := range wildcardForms() {
			cases = append(cases, followCase{form, server})
		}
	}
	return cases
}

func (c followCase) name() string { return c.form.name + " client of " + c.server.name }

func followAll(t *testing.T, r *report, cases []followCase, known faults) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name(), func(t *testing.T) {
			known.run(t, r, c.name(), func(t testing.TB) {
				t.Helper()
				w := newWorld(t, clientKind{name: c.form.name}, c.server, naming{})
				r.ran(t, func() string { return c.form.name + " client" }, c.server.name, "SUB-14 OPS-1 RES-12 wildcards")
				followWildcards(t, w, c.form)
			})
		})
	}
}
