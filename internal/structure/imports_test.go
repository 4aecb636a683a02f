package structure

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/golist"
)

// helpers stands for all product helpers in a row of mayImport. A helper has no row: it
// may import keyer, keyer/rules, internal/wire and other helpers.
const helpers = "helpers"

var productHelpers = []string{
	"internal/ack",
	"internal/credentials",
	"internal/files",
	"internal/logs",
	"internal/notify",
	"internal/quota",
	"internal/restjson",
	"internal/retry",
	"internal/smallmap",
	"internal/sockets",
	"internal/xds",
	"internal/xds/apitypes",
	"internal/xds/payload",
}

// mayImport has a row for each package of the module: what it may import of the module,
// in files that are no tests. Data flows from upstream through cache to downstream, and
// imports go one way. docs/architecture.md says what the packages are.
var mayImport = map[string][]string{
	"internal/wire":    {"internal/xds"},
	"keyer":            {"internal/xds"},
	"keyer/rules":      {"keyer"},
	"config/bootstrap": {"config"},
	"config":           {"keyer", "keyer/rules", "internal/files", "internal/sockets", "internal/credentials", "internal/xds"},

	"cache/digest":           nil,
	"cache/hold":             {"internal/wire"},
	"cache":                  {"cache/digest", "cache/hold", "keyer", "internal/wire", helpers},
	"cache/snapshot":         {"cache", "internal/wire", helpers},
	"downstream/delivery":    {"cache", "cache/digest", "keyer", "internal/wire", helpers},
	"downstream/connections": {helpers},
	"downstream/identity":    {"downstream/connections", "keyer", helpers},
	"downstream":             {"downstream/delivery", "downstream/identity", "cache", "keyer", "keyer/rules", "internal/wire", helpers},
	"upstream":               {"upstream/filesource", "keyer", "internal/wire", helpers},
	"upstream/filesource":    {"internal/wire", helpers},
	"relay/resolve":          {"downstream/delivery", "relay/directory", "cache", "keyer", "internal/wire", helpers},
	"relay/directory":        {"keyer", "internal/wire"},
	"relay/refusals":         {helpers},
	"relay/sharing":          {"keyer", "keyer/rules"},
	"relay/passthrough":      {"relay/streams", "cache", "downstream", "internal/wire", helpers},
	"relay/audit":            {helpers},
	"relay/admin":            {"relay/audit", "relay/sharing", "cache", "config", "downstream", "downstream/delivery", "upstream", "keyer", helpers},
	"relay/load":             {helpers},
	"relay/loadreport":       {"relay/streams", helpers},
	"relay/streams":          {helpers},
	"relay/peers":            {"cache", "cache/snapshot"},
	"metrics":                {"cache", "downstream", "downstream/identity", "upstream", "internal/credentials", "internal/logs", "internal/xds", "relay/refusals", "relay/load", "relay/loadreport", "relay/peers", "relay/resolve"}, // it is their observer
	"relay": {
		"cache", "cache/hold", "cache/snapshot", "config", "downstream", "downstream/connections", "downstream/identity", "upstream", "metrics", "keyer", "keyer/rules",
		"relay/admin", "relay/audit", "relay/directory", "relay/load", "relay/loadreport", "relay/passthrough", "relay/peers", "relay/refusals", "relay/resolve", "relay/sharing", "upstream/filesource", "internal/wire", helpers,
	},

	// Programs, and what they do.
	"cmd/internal/cli": {"config", "internal/logs"},
	"cmd/xdsrelay": {
		"cmd/internal/cli", "cache", "cache/snapshot", "config", "downstream", "downstream/delivery", "relay", "relay/admin", "keyer", "cmd/xdsrelay/internal/adminclient", "config/bootstrap", "cmd/xdsrelay/internal/compare", "cmd/xdsrelay/internal/explain", "cmd/xdsrelay/internal/fleet", "cmd/xdsrelay/internal/watch",
		"internal/xdsclient", helpers,
	},
	"cmd/xdsrelay-demo":                 {"cmd/internal/cli", "cmd/xdsrelay-demo/internal/demo"},
	"cmd/xdsrelay-demo/internal/demo":   {"config", "relay", "internal/testkit/gocontrolplane", "internal/xdsclient"},
	"cmd/xdsrelay/internal/adminclient": {"internal/sockets"},
	"cmd/xdsrelay/internal/compare":     {"keyer", "cmd/xdsrelay/internal/watch", "internal/wire", "internal/xdsclient", helpers},
	"cmd/xdsrelay/internal/explain":     {"config", "relay", "relay/sharing", "keyer", "keyer/rules", "cmd/xdsrelay/internal/fleet", helpers},
	"cmd/xdsrelay/internal/fleet":       {"keyer", helpers},
	"cmd/xdsrelay/internal/watch":       {"keyer", "internal/wire", "internal/xdsclient", helpers},

	// Clients for programs and tests.
	"internal/xdsclient": {"keyer", "internal/wire", helpers},

	// What tests, the demo and the load generator need: no other row names it.
	"internal/testkit/gocontrolplane": nil,
	"internal/testkit/pki":            nil,
	"internal/structure/shape":        {"internal/testkit/golist"},
	"internal/testkit/frames":         nil,
	"internal/testkit/encoded":        nil,
	"internal/testkit/envoyproc":      {"internal/testkit/wait"},
	"internal/testkit/golist":         nil,
	"internal/testkit/loads":          nil,
	"internal/testkit/logtest":        nil,
	"internal/testkit/parallel":       nil,
	"internal/testkit/plane":          {"internal/testkit/ports", helpers},
	"internal/testkit/ports":          {"internal/testkit/wait"},
	"internal/testkit/relays":         {"config", "relay", "internal/sockets", "internal/testkit/ports"},
	"internal/testkit/tokens":         nil,
	"internal/testkit/traffic":        nil,
	"internal/testkit/wait":           nil,
	"internal/testkit/words":          {"internal/wire"},
	"internal/testkit/workloads":      {"internal/testkit/pki"},

	"integration/bench": {
		"integration/bench/internal/attack", "integration/bench/internal/clock", "integration/bench/internal/content", "integration/bench/internal/fleet",
		"integration/bench/internal/report", "integration/bench/internal/server",
	},
	"integration/bench/internal/attack":  {"integration/bench/internal/fleet", "integration/bench/internal/server", "internal/testkit/frames"},
	"integration/bench/internal/clock":   nil,
	"integration/bench/internal/content": nil,
	"integration/bench/internal/fleet": {
		"integration/bench/internal/clock", "integration/bench/internal/content", "integration/bench/internal/report",
	},
	"examples/grpc-client":                nil,
	"integration/compare":                 nil,
	"integration/kubernetes/app":          {"internal/testkit/envoyproc", "internal/testkit/plane", "internal/testkit/traffic"},
	"integration/simulate":                nil,
	"integration/bench/internal/baseline": {"integration/bench/internal/content"},
	"integration/bench/internal/report":   nil,
	"integration/bench/internal/server": {
		"config", "relay", "integration/bench/internal/clock", "integration/bench/internal/content",
		"integration/bench/internal/fleet", "integration/bench/internal/baseline", "internal/testkit/pki",
	},
}

func TestImportsGoOneWay(t *testing.T) {
	imports := moduleImports(t)
	for _, room := range slices.Sorted(maps.Keys(imports)) {
		allowed, ok := allowedImports(room)
		if !ok {
			t.Errorf("package %s has no row in mayImport", room)
		}
		for _, imported := range imports[room] {
			if !slices.Contains(allowed, imported) {
				t.Errorf("%s must not import %s", room, imported)
			}
		}
	}
	for _, room := range slices.Concat(slices.Sorted(maps.Keys(mayImport)), productHelpers) {
		if _, ok := imports[room]; !ok {
			t.Errorf("there is no package %s any more: take it off the table", room)
		}
	}
}

// mostRooms is how many folders internal/ may have: each has a name that says what it is.
const mostRooms = 15

// A package that one program or one package of the product uses lies in that.
func TestInternalHasFewFolders(t *testing.T) {
	entries, err := os.ReadDir(moduleRoot + "/internal")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > mostRooms {
		t.Errorf("internal/ has %d folders, at most %d may be: put a package into the one that uses it, or into one of these", len(entries), mostRooms)
	}
}

// allowedImports returns what a package may import; ok is false if no table has it.
func allowedImports(room string) (allowed []string, ok bool) {
	if slices.Contains(productHelpers, room) {
		return append([]string{"keyer", "keyer/rules", "internal/wire"}, productHelpers...), true
	}
	row, ok := mayImport[room]
	if slices.Contains(row, helpers) {
		return append(slices.Clone(row), productHelpers...), ok
	}
	return row, ok
}

// moduleImports returns the packages of the module with what each imports of the
// module, in files that are no tests.
func moduleImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := make(map[string][]string)
	err := filepath.WalkDir(moduleRoot, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return enter(path, d)
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		found, err := fileImports(path)
		room, _ := strings.CutPrefix(filepath.ToSlash(filepath.Dir(path)), moduleRoot+"/")
		imports[room] = append(imports[room], found...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

// enter skips folders that hold no packages of this module.
func enter(path string, d fs.DirEntry) error {
	if path == moduleRoot {
		return nil
	}
	if strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func fileImports(path string) ([]string, error) {
	syntax, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var imports []string
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if room, ok := strings.CutPrefix(imported, module+"/"); ok {
			imports = append(imports, room)
		}
	}
	return imports, nil
}

func under(room string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(r string) bool { return room == r || strings.HasPrefix(room, r+"/") })
}

// The relay that operators install has no control plane, no demo and nothing that only
// tests need in it. Nor has it types of API v2, and gRPC's trace, whose templates call methods by name: the linker
// keeps each exported method of each type for those.
func TestInstalledProgramLinksWhatItNeeds(t *testing.T) {
	never := []string{
		"github.com/envoyproxy/go-control-plane/pkg", // caches and servers
		"github.com/envoyproxy/go-control-plane/envoy/api",
		"golang.org/x/net/trace",
		module + "/cmd/xdsrelay-demo",
		module + "/integration",
		module + "/internal/testkit",
		"github.com/google/go-cmp",
		"go.uber.org/goleak",
		"pgregory.net/rapid",
		"testing",
	}
	watched(t)
	listed, err := golist.List(t.Context(), moduleRoot, "-deps", "-tags=grpcnotrace", "./cmd/xdsrelay")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range listed {
		if under(p.ImportPath, never) {
			t.Errorf("cmd/xdsrelay links %s", p.ImportPath)
		}
	}
}
