package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/upstream/filesource"
)

// fileBed is a session over a view that the test makes, and a real store. Nothing runs:
// each step is one look of the session.
type fileBed struct {
	*bed

	files   *Files
	session *Session
	number  uint64
	obs     *recorder
	log     *strings.Builder
}

func newFileBed(t *testing.T) *fileBed {
	t.Helper()
	obs, log := &recorder{}, new(strings.Builder)
	f, err := NewFiles(FilesConfig{
		Name: "files", Path: filepath.Join(t.TempDir(), "missing"), FullState: map[string]bool{clusters: true},
		Observer: obs, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Close() // the views are the test's
	b := newBed(t, cache.Source{FullState: map[string]bool{clusters: true}, State: true, PerType: true})
	s, err := f.NewSession(SessionConfig{Store: b, Scope: "scope", Observer: obs})
	if err != nil {
		t.Fatal(err)
	}
	return &fileBed{bed: b, files: f, session: s, obs: obs, log: log}
}

// snapshot has the session look at these states; nil: none. Those of the last look
// are given again as they were.
func (b *fileBed) snapshot(incomplete bool, states map[string]*filesource.State) {
	b.number++
	b.files.take(&filesource.Snapshot{Number: b.number, States: states, Incomplete: incomplete})
	lookAt(b.session)
}

// look has the session answer what is wanted.
func (b *fileBed) look() { lookAt(b.session) }

// fileState is a state with resources "name" or "name=content".
func fileState(t testing.TB, typeURL, version string, names ...string) *filesource.State {
	t.Helper()
	s := &filesource.State{VersionInfo: version}
	for _, n := range names {
		name, content, _ := strings.Cut(n, "=")
		r, err := wire.NewResource(&discoveryv3.Resource{Name: name, Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte(content)}})
		if err != nil {
			t.Fatal(err)
		}
		s.Resources = append(s.Resources, r)
	}
	return s
}

func TestFileSession(t *testing.T) {
	type states = map[string]*filesource.State
	const dir = "xdstp://x/envoy.config.cluster.v3.Cluster/dir/"
	for name, f := range map[string]func(b *fileBed){
		"VAR-6 what is wanted is answered, and nothing else is told (SUB-13)": func(b *fileBed) {
			b.want(clusters, "a", "x")
			b.want(endpoints, "*")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "1", "a", "b", "c"), endpoints: fileState(b.t, endpoints, "1", "e")})
			b.expect(clusters, "+a", "-x")
			b.expect(endpoints, "+e")
			if b.obs.received != 2 {
				b.t.Errorf("%d responses", b.obs.received)
			}
		},
		"ERR-1 files hold errors": func(b *fileBed) {
			b.want(clusters, "a", "b", "c")
			b.want(endpoints, "a", "b")
			failing := func(s *filesource.State, names ...string) *filesource.State {
				for _, n := range names {
					e := wire.ResourceError{Name: n[1:], Code: codes.Unavailable}
					if n[0] == '?' {
						e.Code = codes.NotFound
					}
					s.Errors = append(s.Errors, e)
				}
				return s
			}
			all := states{
				clusters:  fileState(b.t, clusters, "1", "a", "b"),
				endpoints: fileState(b.t, endpoints, "1", "a", "b"),
			}
			b.snapshot(false, all)
			b.expect(clusters, "+a", "+b", "-c")
			b.snapshot(false, states{
				clusters:  failing(fileState(b.t, clusters, "2", "a"), "!b", "?c", "?nobody's"),
				endpoints: failing(fileState(b.t, endpoints, "2"), "!a", "?b"),
			})
			b.expect(clusters, "+a", "+b", "!c")
			b.expect(endpoints, "+a", "!b")
			b.want(clusters, "nobody's", "d")
			b.look()
			b.expect(clusters, "+a", "+b", "!c", "-d", "!nobody's")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "3", "a"), endpoints: all[endpoints]})
			b.expect(clusters, "+a", "-b", "-c", "-d", "-nobody's")
			b.expect(endpoints, "+a", "+b")
		},
		"RES-2 nothing is told before anything was read": func(b *fileBed) {
			b.want(clusters, "a")
			b.look()
			b.expect(clusters, "?a")
			if got := b.session.Status().State; got != StateConnecting {
				b.t.Errorf("state %s", got)
			}
			b.snapshot(false, nil)
			b.expect(clusters, "-a")
			if got := b.session.Status().State; got != StateConnecting {
				b.t.Errorf("OPS-1: %s while the path cannot be read", got)
			}
		},
		"RES-2 what may be in a file that was never valid is not told of": func(b *fileBed) {
			b.want(clusters, "*")
			b.want(endpoints, "a", "b")
			all := states{clusters: fileState(b.t, clusters, "1", "a"), endpoints: fileState(b.t, endpoints, "1", "a")}
			b.snapshot(true, all)
			b.expect(clusters, "+a")
			b.expect(endpoints, "+a", "?b")
			before := b.obs.received
			b.look()
			if b.obs.received != before {
				b.t.Error("told again what did not change")
			}
			b.snapshot(true, states{clusters: fileState(b.t, clusters, "2", "b"), endpoints: all[endpoints]})
			b.expect(clusters, "+a", "+b")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "2", "b"), endpoints: all[endpoints]})
			b.expect(clusters, "+b")
			b.expect(endpoints, "+a", "-b")
		},
		"RES-8 of other types what is missing stays with those who have it": func(b *fileBed) {
			b.want(endpoints, "a", "b")
			b.want(clusters, "a", "b")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "1", "a", "b"), endpoints: fileState(b.t, endpoints, "1", "a", "b", "c")})
			b.want(endpoints, "c") // it is told first that c is gone
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "2", "a"), endpoints: fileState(b.t, endpoints, "2", "a")})
			b.expect(clusters, "+a", "-b")
			b.expect(endpoints, "+a", "+b", "-c")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "3"), endpoints: fileState(b.t, endpoints, "3", "a=new")})
			b.expect(clusters, "-a", "-b")
			b.expect(endpoints, "+a", "+b", "-c")
			b.snapshot(false, states{endpoints: fileState(b.t, endpoints, "4", "b=new", "c")})
			b.expect(endpoints, "+a", "+b", "+c")
		},
		"new demand is answered at once, and by itself": func(b *fileBed) {
			b.want(endpoints, "a")
			b.snapshot(false, states{endpoints: fileState(b.t, endpoints, "1", "a", "b", "c")})
			bytes := b.obs.bytes
			b.want(endpoints, "b", "x")
			b.look()
			b.expect(endpoints, "+a", "+b", "-x")
			if got := b.obs.bytes - bytes; got != bytes {
				b.t.Errorf("told %d bytes for one resource of %d", got, bytes)
			}
		},
		"an unchanged type is not told again": func(b *fileBed) {
			b.want(clusters, "*")
			b.want(endpoints, "a")
			first := states{clusters: fileState(b.t, clusters, "1", "a"), endpoints: fileState(b.t, endpoints, "1", "a")}
			b.snapshot(false, first)
			n, before := b.Sequence(), b.obs.received
			b.snapshot(false, states{clusters: first[clusters], endpoints: fileState(b.t, endpoints, "2", "a")})
			if b.obs.received != before+1 || b.Sequence() != n {
				b.t.Errorf("%d responses, %d changes", b.obs.received-before, b.Sequence()-n)
			}
		},
		"GLOB-7 globs are synced, GLOB-6 their members named too, and \"*\" has no xdstp names": func(b *fileBed) {
			b.want(clusters, dir+"*", dir+"a", "xdstp://x/envoy.config.cluster.v3.Cluster/none/*")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "1", dir+"a", dir+"b", "opaque", dir+"deep/c")})
			b.expect(clusters, "+"+dir+"a", "+"+dir+"b")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "2", dir+"b=new", "opaque")})
			b.expect(clusters, "+"+dir+"b")
			b.want(clusters, "*")
			b.look()
			b.expect(clusters, "+"+dir+"b", "+opaque")
			b.want(clusters, dir+"deep/*")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "3", dir+"b=new", "opaque", dir+"deep/d")})
			b.expect(clusters, "+"+dir+"b", "+opaque", "+"+dir+"deep/d")
		},
		"SUB-12 wildcard and names are told apart": func(b *fileBed) {
			b.want(clusters, "*", "a", "x")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "1", "a", "b")})
			b.expect(clusters, "+a", "+a", "+b", "-x")
			b.unwant(clusters, "x")
			b.look()
			b.expect(clusters, "+a", "+a", "+b")
		},
		"what nobody wants any more is forgotten, and wanted anew": func(b *fileBed) {
			b.want(clusters, "x")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "1", "a")})
			b.unwant(clusters, "x") // what is absent is let go of at once
			b.look()
			b.expect(clusters)
			if len(b.session.source.(*fileSource).lines) != 0 || b.session.Status().State != StateIdle {
				b.t.Errorf("%d lines, state %s", len(b.session.source.(*fileSource).lines), b.session.Status().State)
			}
			b.want(clusters, "a")
			b.look()
			b.expect(clusters, "+a")
		},
		"ACK-6 two names that mean the same keep what was there, and are told of once": func(b *fileBed) {
			b.want(clusters, dir+"*")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "1", dir+"a")})
			bad := fileState(b.t, clusters, "2", dir+"b", "xdstp://x/envoy.config.cluster.v3.Cluster/dir/%62")
			b.snapshot(false, states{clusters: bad})
			b.snapshot(false, states{clusters: bad, endpoints: fileState(b.t, endpoints, "1")})
			b.expect(clusters, "+"+dir+"a")
			if got := b.files.Problems(); len(got) != 2 || !strings.Contains(strings.Join(got, ""), "mean the same") { // the other is the missing path
				b.t.Errorf("problems %q", got)
			}
			if got := strings.Count(b.log.String(), "mean the same"); got != 1 {
				b.t.Errorf("logged %d times: %s", got, b.log)
			}
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "3", dir+"b")})
			b.expect(clusters, "+"+dir+"b")
			if got := b.files.Problems(); len(got) != 1 {
				b.t.Errorf("problems %q", got)
			}
		},
		"RES-2 a type that could never be used is not told of": func(b *fileBed) {
			b.want(clusters, dir+"b")
			b.want(endpoints, "a")
			b.snapshot(false, states{clusters: fileState(b.t, clusters, "2", dir+"%zz")})
			b.expect(clusters, "?"+dir+"b")
			b.expect(endpoints, "?a")
		},
		"RES-10 aliases": func(b *fileBed) {
			state := fileState(b.t, virtualHosts, "1")
			r, err := wire.NewResource(&discoveryv3.Resource{Name: "r/a", Aliases: []string{"r/alias"}, Resource: &anypb.Any{TypeUrl: virtualHosts}})
			if err != nil {
				b.t.Fatal(err)
			}
			state.Resources = append(state.Resources, r)
			b.want(virtualHosts, "r/alias")
			b.snapshot(false, states{virtualHosts: state})
			b.expect(virtualHosts, "+r/alias")
			b.want(virtualHosts, "r/a")
			b.look()
			b.expect(virtualHosts, "+r/a", "+r/alias")
		},
	} {
		t.Run(name, func(t *testing.T) { f(newFileBed(t)) })
	}
}

// lasting gives the resources of a state a ttl.
func lasting(t testing.TB, s *filesource.State, ttl time.Duration) *filesource.State {
	t.Helper()
	for i, r := range s.Resources {
		timed, err := wire.NewResource(&discoveryv3.Resource{
			Name: r.Name, Ttl: durationpb.New(ttl), Resource: &anypb.Any{TypeUrl: r.TypeURL(), Value: []byte("timed")},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Resources[i] = timed
	}
	return s
}

// A ttl runs from when its resource was told, or its file changed: what else is told of
// the type meanwhile does not renew it, nor bring back what ran out (TTL-2, TTL-4).
func TestTTL2TTL4FilesRenewNothing(t *testing.T) {
	const ttl = 10 * time.Second
	const dir = "xdstp://x/envoy.config.cluster.v3.Cluster/dir/"
	type states = map[string]*filesource.State
	for name, c := range map[string]struct {
		typeURL string
		first   []string // wanted
		second  []string // wanted after six seconds
		lost    []string // not wanted any more then
		file    string   // the resource with the ttl
		other   string   // what another file brings after six seconds, "" for none
		broken  bool     // a file was never valid
		rewrite bool     // its own file is written anew after six seconds
		want    []string // after twelve seconds
	}{
		"another file changes":                {clusters, []string{"a", "b"}, nil, nil, "a", "b", false, false, []string{"-a", "+b"}},
		"of a type that is not full-state":    {endpoints, []string{"a", "b"}, nil, nil, "a", "b", false, false, []string{"-a", "+b"}},
		"a glob is wanted":                    {clusters, []string{dir + "a"}, []string{dir + "*"}, nil, dir + "a", "", false, false, nil},
		"another file of \"*\" changes":       {clusters, []string{"*"}, nil, nil, "a", "b", false, false, []string{"+b"}},
		"a file is not valid":                 {clusters, []string{"a"}, []string{"b"}, nil, "a", "b", true, false, []string{"-a", "+b"}},
		"its own file changes":                {clusters, []string{"a"}, nil, nil, "a", "", false, true, []string{"+a"}},
		"another name is not wanted any more": {clusters, []string{"a", "x"}, []string{"b"}, []string{"x"}, "a", "b", false, false, []string{"-a", "+b"}},
		"it is a member of a glob that is let go": {
			clusters, []string{dir + "a", dir + "*"}, []string{dir + "b"}, []string{dir + "*"}, dir + "a", dir + "b", false, false,
			[]string{"-" + dir + "a", "+" + dir + "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFileBed(t)
				timed := lasting(t, fileState(t, c.typeURL, "1", c.file), ttl)
				b.want(c.typeURL, c.first...)
				b.snapshot(c.broken, states{c.typeURL: timed})
				b.Settle(time.Now())
				<-time.After(6 * time.Second)
				b.want(c.typeURL, c.second...)
				b.unwant(c.typeURL, c.lost...)
				b.look()
				after := fileState(t, c.typeURL, "2")
				if c.other != "" {
					after = fileState(t, c.typeURL, "2", c.other)
				}
				again := timed
				if c.rewrite {
					again = lasting(t, fileState(t, c.typeURL, "2", c.file), ttl)
				}
				after.Resources = append(after.Resources, again.Resources...)
				b.snapshot(c.broken, states{c.typeURL: after})
				b.Settle(time.Now())
				<-time.After(6 * time.Second)
				b.Settle(time.Now())
				b.expect(c.typeURL, c.want...)
				// What ran out stays so when the type is told once more.
				more := fileState(t, c.typeURL, "3", "z")
				more.Resources = append(more.Resources, after.Resources...)
				b.snapshot(c.broken, states{c.typeURL: more})
				if !slices.Contains(c.first, "*") {
					b.expect(c.typeURL, c.want...)
				}
				if b.log.Len() > 0 && strings.Contains(b.log.String(), "rejected") {
					t.Errorf("log: %s", b.log)
				}
			})
		})
	}
}

// What ran out is told anew to who asks for it later, and an alias of what is told already
// is answered (TTL-2, RES-10).
func TestTTL2FilesAskedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFileBed(t)
		r, err := wire.NewResource(&discoveryv3.Resource{
			Name: "a", Aliases: []string{"b"}, Ttl: durationpb.New(10 * time.Second), Resource: &anypb.Any{TypeUrl: clusters, Value: []byte("a")},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.want(clusters, "a")
		b.snapshot(false, map[string]*filesource.State{clusters: {VersionInfo: "1", Resources: []*wire.Resource{r}}})
		<-time.After(6 * time.Second)
		b.want(clusters, "b")
		b.look()
		b.expect(clusters, "+a", "+b")
		<-time.After(11 * time.Second)
		b.Settle(time.Now())
		b.expect(clusters, "-a", "-b")
		b.unwant(clusters, "a", "b")
		b.look()
		b.want(clusters, "a")
		b.look()
		b.expect(clusters, "+a")
	})
}

// What a file wraps with a ttl runs out though nothing else happens.
func TestTTL2Files(t *testing.T) {
	path := t.TempDir()
	contents := fmt.Sprintf(`{"version_info": "1", "resources": [{"@type": %q, "name": "a", "ttl": "0.05s", "resource": {"@type": %q, "name": "a"}}]}`,
		wire.ResourceTypeURL, clusters)
	if err := os.WriteFile(filepath.Join(path, "clusters.json"), []byte(contents), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := NewFiles(FilesConfig{Name: "files", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, obs := newBed(t, cache.Source{FullState: map[string]bool{clusters: true}, State: true, PerType: true}), &recorder{}
	s, err := f.NewSession(SessionConfig{Store: b, Observer: obs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
	defer running.Wait()
	defer cancel()
	b.want(clusters, "a")
	eventually(t, "the file's resource", func() (told bool) {
		obs.locked(func() { told = obs.bytes > 0 })
		return told
	})
	eventually(t, "the end of its ttl", func() bool {
		got := b.Store.Resources(clusters, "a")
		return len(got) == 1 && got[0].State == "absent"
	})
}

// The source runs once for all sessions, which are woken by what changes, and ends with
// them.
func TestFiles_VAR6_FILE1(t *testing.T) {
	const secret = "hunter2"
	path := t.TempDir()
	put := func(contents string) {
		t.Helper()
		name := filepath.Join(path, "clusters.json")
		if err := os.WriteFile(name+".new", []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	cluster := func(version, name string) string {
		return fmt.Sprintf(`{"version_info": %q, "resources": [{"@type": %q, "name": %q}]}`, version, clusters, name)
	}
	put(cluster("1", "a"))
	obs, log := &recorder{}, new(logtest.Text)
	f, err := NewFiles(FilesConfig{Name: "files", Path: path, Quiet: time.Millisecond, Observer: obs, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Reach(t.Context()); err != nil {
		t.Fatal(err)
	}
	var beds []*bed
	var sessions []*Session
	var running sync.WaitGroup
	for range 3 {
		b := newBed(t, cache.Source{FullState: map[string]bool{clusters: true}, State: true, PerType: true})
		s, err := f.NewSession(SessionConfig{Store: b})
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := s.Run(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("Run ended with %v", err)
			}
		})
		b.want(clusters, "*")
		beds, sessions = append(beds, b), append(sessions, s)
	}
	holds := func(b *bed, name string) func() bool {
		return func() bool {
			got := b.Store.Resources(clusters, "")
			return len(got) == 1 && got[0].Name == name && got[0].State == "present"
		}
	}
	for i, b := range beds {
		eventually(t, "holding "+"a", holds(b, "a"))
		eventually(t, "connected", func() bool { return sessions[i].Status().State == StateConnected })
	}
	put(cluster("2", "b"))
	for _, b := range beds {
		eventually(t, "holding "+"b", holds(b, "b"))
	}
	put(`{"version_info": "3", "resources": ["` + secret + `"]}`)
	eventually(t, "the broken file", func() bool { return len(f.Problems()) == 1 })
	eventually(t, "the error", func() bool { return sessions[0].Status().LastError != nil })
	last := sessions[0].Status().LastError
	if last.Reason != ReasonMalformed || !strings.Contains(last.Error(), "clusters.json") {
		t.Errorf("last error %v", last)
	}
	if told := last.Error() + log.String() + strings.Join(f.Problems(), ""); strings.Contains(told, secret) {
		t.Errorf("OPS-6: the file is quoted: %s", told)
	}
	for _, b := range beds {
		if !holds(b, "b")() {
			t.Error("VAR-6: a broken file took what was valid")
		}
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the missing folder", func() bool { return sessions[1].Status().State == StateConnecting })
	obs.locked(func() {
		if obs.unusable < 2 {
			t.Errorf("%d unusable files were counted", obs.unusable)
		}
	})
	sessions[2].Tell(ack.Outcome{TypeURL: clusters, Kind: ack.Rejected, Reason: "no"})
	f.Close()
	running.Wait()
	if err := sessions[0].Run(t.Context()); !errors.Is(err, errRunning) {
		t.Errorf("a second Run gave %v", err)
	}
	late, err := f.NewSession(SessionConfig{Store: beds[0]})
	if err != nil {
		t.Fatal(err)
	}
	if err := late.Run(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Run after Close gave %v", err)
	}
}

func TestNewFiles(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "odd.txt")
	if err := os.WriteFile(odd, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := NewFiles(FilesConfig{Name: "x", Path: odd}); f != nil || err == nil || !strings.Contains(err.Error(), `upstream "x"`) || !strings.Contains(err.Error(), "odd.txt") {
		t.Errorf("NewFiles gave %v and %v", f, err)
	}
	f, err := NewFiles(FilesConfig{Name: "x", Path: filepath.Join(t.TempDir(), "missing")})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Reach(t.Context()); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("Reach gave %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Reach(ended); err == nil {
		t.Error("reached what is missing")
	}
	if _, err := f.NewSession(SessionConfig{}); err == nil || !strings.Contains(err.Error(), "needs a store") {
		t.Errorf("without a store: %v", err)
	}
}

// BenchmarkFileSessionAnswer asks for one name more of a type of which ten thousand are
// asked for already.
func BenchmarkFileSessionAnswer(b *testing.B) {
	names := make([]string, 20_000)
	for i := range names {
		names[i] = fmt.Sprintf("name-%d", i)
	}
	view, _ := newFileView(&fileView{}, &filesource.Snapshot{
		Number: 1, States: map[string]*filesource.State{endpoints: fileState(b, endpoints, "1", names...)},
	})
	files := &Files{cfg: FilesConfig{}.withDefaults()}
	files.view.Store(view)
	store := newTypedStore(sub(endpoints, names[:10_000]...))
	s, err := files.NewSession(SessionConfig{Store: store})
	if err != nil {
		b.Fatal(err)
	}
	lookAt(s)
	id := wire.StreamID{TypeURL: endpoints}
	for i := 0; b.Loop(); i++ {
		store.wantOn(id, store.wanted[id], sub(endpoints, names[10_000+i%10_000]))
		lookAt(s)
	}
}
