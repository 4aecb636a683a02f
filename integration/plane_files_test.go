package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// replacement is how a file gets new contents (FILE-1).
type replacement string

// The ways in which operators replace files.
const (
	byRename    replacement = "rename"    // a new file takes the name over
	byRewrite   replacement = "rewrite"   // the file is cut and written
	byConfigMap replacement = "ConfigMap" // Kubernetes: a symlink to the folder of all files moves on
)

// encodings encode a DiscoveryResponse, by the file's extension (VAR-6).
var encodings = map[string]func(proto.Message) ([]byte, error){
	".json":    protojson.Marshal,
	".yaml":    marshalYAML,
	".pb":      proto.Marshal,
	".pb_text": prototext.Marshal,
}

func marshalYAML(m proto.Message) ([]byte, error) {
	b, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(b, &tree); err != nil {
		return nil, err
	}
	return yaml.Marshal(tree)
}

// planeFiles keeps a folder with a file for each type that the plane ever had.
type planeFiles struct {
	t       testing.TB
	dir     string
	staging string
	ext     string
	replace replacement
	now     map[string][]byte // contents by file name
	swaps   int
}

// startFiles writes the plane's contents to a folder from now on, and gives its
// path. With subscriptions nobody can ask: the folder holds everything.
func (p *testPlane) startFiles(t testing.TB, ext string, replace replacement) string {
	t.Helper()
	f := &planeFiles{t: t, dir: t.TempDir(), staging: t.TempDir(), ext: ext, replace: replace, now: make(map[string][]byte)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files = f
	var all []plane.Resource
	for _, r := range p.Contents("") {
		r.Unlisted = false // a file cannot keep anything from the wildcard
		all = append(all, r)
	}
	p.Apply(plane.Change{Set: all})
	p.writeFilesLocked()
	return f.dir
}

func (p *testPlane) writeFileLocked(typeURL string) {
	if p.files == nil || p.down {
		return // nobody writes while the plane is down
	}
	r := &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: p.Version(typeURL)}
	for _, x := range p.Contents(typeURL) {
		payload := x.Payload
		if strings.HasSuffix(x.Payload.GetTypeUrl(), "Collection") { // which has no name of its own
			payload = new(anypb.Any)
			if err := payload.MarshalFrom(&discovery.Resource{Name: x.Name, Version: x.Version, Resource: x.Payload}); err != nil {
				p.files.t.Error(err)
			}
		}
		r.Resources = append(r.Resources, payload)
	}
	p.files.write(typeURL[strings.LastIndexByte(typeURL, '.')+1:]+p.files.ext, r)
}

func (p *testPlane) writeFilesLocked() {
	if p.files == nil {
		return
	}
	written := make(map[string]bool)
	for _, r := range p.Contents("") {
		written[r.TypeURL] = true
	}
	for typeURL := range written {
		p.writeFileLocked(typeURL)
	}
}

func (f *planeFiles) write(name string, r *discovery.DiscoveryResponse) {
	b, err := encodings[f.ext](r)
	if err != nil {
		f.t.Errorf("encoding %s: %v", name, err)
		return
	}
	f.now[name] = b
	f.put(name, b)
}

// put replaces one file.
func (f *planeFiles) put(name string, b []byte) {
	var err error
	path := filepath.Join(f.dir, name)
	switch f.replace {
	case byRename:
		// Not in the folder itself, where a half-written file would be read.
		next := filepath.Join(f.staging, name)
		if err = os.WriteFile(next, b, 0o600); err == nil {
			err = os.Rename(next, path)
		}
	case byRewrite:
		err = os.WriteFile(path, b, 0o600)
	case byConfigMap:
		err = f.swap(map[string][]byte{name: b})
	}
	if err != nil {
		f.t.Errorf("writing %s: %v", path, err)
	}
}

// swap does what a kubelet does: all files are written to a new folder, and the
// symlink "..data", through which every file is reached, is renamed over.
func (f *planeFiles) swap(changed map[string][]byte) error {
	f.swaps++
	next := fmt.Sprintf("..%d", f.swaps)
	if err := os.Mkdir(filepath.Join(f.dir, next), 0o700); err != nil {
		return err
	}
	all := maps.Clone(f.now)
	maps.Copy(all, changed)
	for name, b := range all {
		if err := os.WriteFile(filepath.Join(f.dir, next, name), b, 0o600); err != nil {
			return err
		}
	}
	data := filepath.Join(f.dir, "..data")
	old, _ := os.Readlink(data) // none at the first time
	if err := os.Symlink(next, data+"_tmp"); err != nil {
		return err
	}
	if err := os.Rename(data+"_tmp", data); err != nil {
		return err
	}
	for name := range all {
		link := filepath.Join(f.dir, name)
		if err := os.Symlink(filepath.Join("..data", name), link); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(f.dir, old))
	}
	return nil
}

// damage leaves half of every file, and what no encoding allows: the last valid configuration must stay
// (VAR-6).
func (f *planeFiles) damage() {
	for _, name := range slices.Sorted(maps.Keys(f.now)) {
		f.put(name, append(f.now[name][:len(f.now[name])/2:len(f.now[name])/2], "\n\t{["...))
	}
}
