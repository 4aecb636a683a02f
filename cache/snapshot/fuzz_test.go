package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
)

// mended gives the records of a file the checksums that fit them, so that what is behind them is read.
func mended(file []byte) []byte {
	b := bytes.Clone(file)
	start := len(magic) + 4
	sum := crc32.Checksum(b[:min(start, len(b))], castagnoli)
	for at := start; at+9 <= len(b); {
		size := int(binary.LittleEndian.Uint32(b[at:]))
		if size < 1 || size > len(b)-at-8 {
			break
		}
		body := b[at+8 : at+8+size]
		if body[0] == recordEnd && size >= 5 {
			binary.LittleEndian.PutUint32(body[size-4:], sum)
		}
		binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(body, castagnoli))
		sum = crc32.Update(sum, castagnoli, b[at:at+8+size])
		at += 8 + size
	}
	return b
}

// Whatever is in a file, it is read as a whole or is an error that says so. What was read, a store
// takes, and it is consistent then.
func FuzzRead_SUR1(f *testing.F) {
	write := func(i *cache.Image) {
		var b bytes.Buffer
		h := &Header{ID: ID("a"), Upstream: "u", Scope: "s", Written: time.Unix(1, 2), AsOf: time.Unix(1, 0)}
		if _, err := Write(&b, h, i); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	write(&cache.Image{})
	write(imageOfState(f, 1, 2))
	write(&cache.Image{Tables: []cache.TableImage{{
		TypeURL: listenerType, SystemVersion: "7", VersionInfo: "8", Collections: []string{"*"}, Names: []string{"a", "b"},
		Resources: []cache.ResourceImage{{
			Resource: resource(f, &discoveryv3.Resource{Name: "a", Aliases: []string{"b"}, Version: "1", Resource: &anypb.Any{TypeUrl: listenerType}}),
			Received: time.Unix(3, 0), Deadline: time.Unix(4e9, 0),
		}},
	}}})
	f.Fuzz(func(t *testing.T, file []byte) {
		for _, b := range [][]byte{file, mended(file)} {
			h, i, err := Read(bytes.NewReader(b))
			if err != nil {
				var bad *CorruptError
				var version *VersionError
				if h != nil || i != nil || !errors.As(err, &bad) && !errors.As(err, &version) {
					t.Fatalf("read %v, %v: %v", h, i, err)
				}
				continue
			}
			store := cache.New(cache.Limits{}, nil).Open(cache.Source{})
			n := store.Snapshots().Restore(i, h.AsOf)
			if err := store.Check(); err != nil {
				t.Fatalf("after %d resources: %v", n, err)
			}
			var again bytes.Buffer
			if _, err := Write(&again, h, store.Snapshots().Image(func(string) bool { return false })); err != nil {
				t.Fatal(err)
			}
			store.Close()
		}
	})
}
