package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func TestCacheInspect_SUR1(t *testing.T) {
	const typeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	dir := t.TempDir()
	r, err := wire.NewResource(&discoveryv3.Resource{Name: "a", Version: "1", Resource: &anypb.Any{TypeUrl: typeURL}})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := snapshot.Open(files.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	h := &snapshot.Header{ID: snapshot.ID("a"), Upstream: "primary", Scope: `cluster="shop"`, Written: now.Add(-time.Minute), AsOf: now.Add(-time.Hour)}
	image := &cache.Image{Tables: []cache.TableImage{{TypeURL: typeURL, Collections: []string{"*"}, Resources: []cache.ResourceImage{{Resource: r}}}}}
	if _, err := folder.Save(h, image); err != nil {
		t.Fatal(err)
	}

	t.Log("while a relay holds the folder")
	got := xdsrelay(t, "cache", "inspect", dir)
	for _, want := range []string{h.ID + ".snapshot", "upstream primary", `scope cluster="shop"`, "as of 1h0m", typeURL, "wildcard", "1 resource "} {
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in %+v", want, got)
		}
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.snapshot"), []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = xdsrelay(t, "cache", "inspect", dir, "-o", "json")
	var files []snapshotFile
	if err := json.Unmarshal([]byte(got.stdout), &files); err != nil || got.code != 1 || len(files) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, f := range files {
		if bad := f.File == "bad.snapshot"; bad != (f.Error != "") || bad == (len(f.Types) == 1) {
			t.Errorf("%+v", f)
		}
	}
	if got := xdsrelay(t, "cache", "inspect", filepath.Join(dir, "none")); got.code != 2 {
		t.Errorf("%+v", got)
	}
	if got := xdsrelay(t, "cache", "inspect", t.TempDir()); got.code != 1 || !strings.Contains(got.stderr, "no relay has used it") {
		t.Errorf("%+v", got)
	}
}
