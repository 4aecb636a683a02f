package filesource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

const (
	typePrefix   = "type.googleapis.com/"
	clusterType  = typePrefix + "envoy.config.cluster.v3.Cluster"
	endpointType = typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	secretType   = typePrefix + "envoy.extensions.transport_sockets.tls.v3.Secret"
)

// patient is how long a test waits for what it knows will come.
const patient = 20 * time.Second

// clusters gives a YAML file of clusters.
func clusters(version string, names ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version_info: %q\ntype_url: %s\nresources:\n", version, clusterType)
	for _, name := range names {
		fmt.Fprintf(&b, "- {\"@type\": %s, name: %s}\n", clusterType, name)
	}
	return b.String()
}

// folder is a temporary one in which a test does what people and tools do.
type folder struct {
	t    *testing.T
	root string
}

func newFolder(t *testing.T) folder { t.Helper(); return folder{t, t.TempDir()} }

func (f folder) path(name string) string { return filepath.Join(f.root, name) }

func (f folder) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// write writes over a file, or makes it.
func (f folder) write(name, data string) {
	f.t.Helper()
	f.must(os.WriteFile(f.path(name), []byte(data), 0o600))
}

// replace puts a new file in the place of one.
func (f folder) replace(name, data string) {
	f.t.Helper()
	f.write("replacement", data)
	f.rename("replacement", name)
}

func (f folder) rename(from, to string) {
	f.t.Helper()
	f.must(os.Rename(f.path(from), f.path(to)))
}

func (f folder) mkdir(name string) {
	f.t.Helper()
	f.must(os.MkdirAll(f.path(name), 0o700))
}

func (f folder) remove(name string) {
	f.t.Helper()
	f.must(os.RemoveAll(f.path(name)))
}

func (f folder) link(target, name string) {
	f.t.Helper()
	f.must(os.Symlink(target, f.path(name)))
}

// configMap writes files the way in which the kubelet does: into a new folder,
// to which the link ..data is switched; every file is a link by way of it.
func (f folder) configMap(dir, revision string, files map[string]string) {
	f.t.Helper()
	f.mkdir(dir + "/.." + revision)
	before, _ := os.Readlink(f.path(dir + "/..data"))
	for name, data := range files {
		f.write(dir+"/.."+revision+"/"+name, data)
	}
	f.link(".."+revision, dir+"/..data_tmp")
	f.rename(dir+"/..data_tmp", dir+"/..data")
	for name := range files {
		if _, err := os.Lstat(f.path(dir + "/" + name)); err != nil {
			f.link("..data/"+name, dir+"/"+name)
		}
	}
	entries, err := os.ReadDir(f.path(dir))
	f.must(err)
	for _, e := range entries {
		if _, there := files[e.Name()]; !there && e.Name()[0] != '.' {
			f.remove(dir + "/" + e.Name())
		}
	}
	if before != "" {
		f.remove(dir + "/" + before)
	}
}

// running is a source that runs until the test ends.
type running struct {
	*Source
	t       *testing.T
	changed <-chan struct{}

	mu      sync.Mutex
	reports []string // "file: error" or "file: ok", the file by its last element
	told    chan struct{}
}

func run(t *testing.T, path string, options ...func(*Source)) *running {
	t.Helper()
	r := &running{t: t, told: make(chan struct{}, 1)}
	s, err := New(Config{
		Path:   path,
		Quiet:  5 * time.Millisecond,
		Poll:   time.Hour, // what a test is about comes by a watch unless it says otherwise
		Report: r.report,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range options {
		option(s)
	}
	r.Source = s
	var cancel func()
	r.changed, cancel = s.Subscribe()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		stop()
		wg.Wait()
	})
	return r
}

func (r *running) report(file string, err error) {
	text := filepath.Base(file) + ": ok"
	if err != nil {
		text = filepath.Base(err.Error())
		if bad, ok := errors.AsType[*Error](err); !ok || bad.File != file {
			r.t.Errorf("reported for %s: %#v", file, err)
		}
	}
	r.mu.Lock()
	r.reports = append(r.reports, text)
	r.mu.Unlock()
	notify.Signal(r.told)
}

// wait waits until the snapshot has these clusters, by what state gives.
func (r *running) wait(want string) *Snapshot {
	r.t.Helper()
	return r.waitFor(want, func(s *Snapshot) bool { return state(s) == want })
}

// waitFor waits for a snapshot, which is described for who waits in vain.
func (r *running) waitFor(want string, is func(*Snapshot) bool) *Snapshot {
	r.t.Helper()
	timeout := time.After(patient)
	for {
		s := r.Snapshot()
		if is(s) {
			return s
		}
		select {
		case <-r.changed:
		case <-timeout:
			r.t.Fatalf("%s, want %s; reports %q", state(s), want, r.reports)
		}
	}
}

// waitReport waits until a report with the text was made, and gives them all.
func (r *running) waitReport(text string) {
	r.t.Helper()
	timeout := time.After(patient)
	for {
		r.mu.Lock()
		reports := append([]string(nil), r.reports...)
		r.mu.Unlock()
		for _, have := range reports {
			if strings.Contains(have, text) {
				return
			}
		}
		select {
		case <-r.told:
		case <-timeout:
			r.t.Fatalf("no report with %q in %q", text, reports)
		}
	}
}

// forget drops the reports made so far.
func (r *running) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = nil
}

// state shows the clusters of a snapshot: "version: name, name".
func state(s *Snapshot) string {
	c := s.States[clusterType]
	if c == nil {
		return "nothing"
	}
	return c.VersionInfo + ": " + strings.Join(namesOf(c), ", ")
}

func namesOf(s *State) []string {
	names := make([]string, len(s.Resources))
	for i, r := range s.Resources {
		names[i] = r.Name
	}
	return names
}
