package filesource

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// step puts files, or removes those whose text is empty, and says what comes of it.
type step struct {
	files map[string]string
	want  string // of the clusters
	bad   string // files with a conflict
}

// TestACK6_conflicts: a name in two files is refused in the one that came later,
// until the other gives it up.
func TestACK6_conflicts(t *testing.T) {
	for name, steps := range map[string][]step{
		"at the start the first by name wins": {
			{map[string]string{"a.yaml": clusters("1", "x"), "b.yaml": clusters("2", "x", "y")}, "1: x", "b.yaml"},
			{map[string]string{"a.yaml": clusters("3", "z")}, "3,2: z, x, y", ""},
		},
		"what counts already wins": {
			{map[string]string{"b.yaml": clusters("1", "x")}, "1: x", ""},
			{map[string]string{"a.yaml": clusters("2", "x", "y")}, "1: x", "a.yaml"},
			{map[string]string{"b.yaml": ""}, "2: x, y", ""},
		},
		"last valid contents stay": {
			{map[string]string{"a.yaml": clusters("1", "x"), "b.yaml": clusters("1", "y")}, "1,1: x, y", ""},
			{map[string]string{"b.yaml": clusters("2", "x", "z")}, "1,1: x, y", "b.yaml"},
			{map[string]string{"b.yaml": clusters("3", "z")}, "1,3: x, z", ""},
		},
		"a resource moves at once": {
			{map[string]string{"a.yaml": clusters("1", "x"), "b.yaml": clusters("1", "y")}, "1,1: x, y", ""},
			{map[string]string{"a.yaml": clusters("2", "z"), "b.yaml": clusters("2", "y", "x")}, "2,2: z, y, x", ""},
		},
		"a resource moves in two steps": {
			{map[string]string{"a.yaml": clusters("1", "x"), "b.yaml": clusters("1", "y")}, "1,1: x, y", ""},
			{map[string]string{"b.yaml": clusters("2", "y", "x")}, "1,1: x, y", "b.yaml"},
			{map[string]string{"a.yaml": clusters("2", "z")}, "2,2: z, y, x", ""},
		},
		"who is refused keeps a name that another was to have": {
			{map[string]string{"a.yaml": clusters("1", "a"), "b.yaml": clusters("1", "b"), "c.yaml": clusters("1", "c")}, "1,1,1: a, b, c", ""},
			// a takes b's name, b takes c's: b is refused, and so is a.
			{map[string]string{"a.yaml": clusters("2", "a", "b"), "b.yaml": clusters("2", "c")}, "1,1,1: a, b, c", "a.yaml b.yaml"},
			{map[string]string{"c.yaml": clusters("2", "d")}, "2,2,2: a, b, c, d", ""},
		},
		"the same name of another type": {
			{map[string]string{"a.yaml": clusters("1", "x"), "b.json": `{"resources": [{"@type": "` + endpointType + `", "cluster_name": "x"}]}`}, "1: x", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			s := still(t, f, Config{})
			for i, step := range steps {
				for name, data := range step.files {
					if f.put(name, data, time.Hour); data == "" {
						f.remove(name)
					}
				}
				s.pass(s.blind(), false)
				if got := state(s.Snapshot()); got != step.want {
					t.Errorf("step %d: %s, want %s", i, got, step.want)
				}
				var bad []string
				for _, base := range []string{"a.yaml", "b.json", "b.yaml", "c.yaml"} {
					if known := s.files[f.path(base)]; known != nil && known.problem() != nil {
						bad = append(bad, base)
					}
				}
				if got := strings.Join(bad, " "); got != step.bad {
					t.Errorf("step %d: %q are refused, want %q", i, got, step.bad)
				}
			}
		})
	}
}

// TestSnapshot: a snapshot is another one only if it says something else, and a
// type's state likewise.
func TestSnapshot(t *testing.T) {
	f := newFolder(t)
	s := still(t, f, Config{})
	f.put("a.yaml", clusters("1", "x"), time.Hour)
	f.put("b.json", `{"type_url": "`+endpointType+`", "version_info": "e1"}`, time.Hour)
	s.pass(s.blind(), false)
	first := s.Snapshot()
	if first.Number != 1 || first.Incomplete || first.States[endpointType].VersionInfo != "e1" || len(first.States[endpointType].Resources) != 0 {
		t.Errorf("%+v", first)
	}
	f.put("a.yaml", clusters("1", "x"), time.Minute) // nothing new but the time
	if s.pass(s.blind(), false); s.Snapshot() != first {
		t.Error("another snapshot of the same")
	}
	f.put("a.yaml", clusters("2", "x"), time.Hour)
	s.pass(s.blind(), false)
	second := s.Snapshot()
	if second.Number != 2 || second.States[clusterType] == first.States[clusterType] || second.States[endpointType] != first.States[endpointType] {
		t.Errorf("number %d; only the clusters changed", second.Number)
	}
	if state(first) != "1: x" {
		t.Error("the first snapshot changed")
	}
	f.remove("b.json")
	s.pass(s.blind(), false)
	if gone := s.Snapshot().States[endpointType]; gone == nil || gone.VersionInfo != digest(nil) {
		t.Errorf("%+v, want the type to stay", gone)
	}
}

func TestACK4_joinedVersions(t *testing.T) {
	long := strings.Repeat("v", 200)
	for _, tt := range []struct {
		versions []string
		want     string
	}{
		{[]string{"1"}, "1"},
		{[]string{"1", "1"}, "1,1"},
		{[]string{"b", "a"}, "b,a"},
		{[]string{long}, long},
		{[]string{long, "1"}, ""},
	} {
		got := join(tt.versions)
		if tt.want != "" && got != tt.want || tt.want == "" && len(got) != 32 {
			t.Errorf("%q: %q, want %q", tt.versions, got, tt.want)
		}
	}
	if join([]string{long, "1"}) == join([]string{long, "2"}) {
		t.Error("the same for different versions")
	}
}

// TestManyFiles: the order of the resources is that of the files and of what is in them.
func TestManyFiles(t *testing.T) {
	f := newFolder(t)
	s := still(t, f, Config{})
	f.put("2.yaml", clusters("2", "c", "b"), time.Hour)
	f.put("1.pb", string(encoded.Bytes(&discoveryv3.DiscoveryResponse{VersionInfo: "1", Resources: []*anypb.Any{encoded.Any(&clusterv3.Cluster{Name: "d"})}})), time.Hour)
	f.put("3.textproto", `version_info: "3" resources { [`+clusterType+`] { name: "a" } }`, time.Hour)
	s.pass(s.blind(), false)
	if got := state(s.Snapshot()); got != "1,2,3: d, c, b, a" {
		t.Error(got)
	}
}

// TestExamples holds the files that the documentation shows to what is read.
func TestExamples(t *testing.T) {
	s, err := New(Config{Path: "../../examples/resources", Quiet: 1, Report: func(_ string, err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	s.pass(s.blind(), true)
	got := s.Snapshot()
	if got.Incomplete || state(got) != "1: shop" || len(got.States[endpointType].Resources) != 1 {
		t.Errorf("%s, %+v", state(got), got.States)
	}
}
