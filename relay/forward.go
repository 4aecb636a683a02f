package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// maxForwarded bounds what of one client's metadata goes to a control plane, in bytes: it
// is kept as long as the session.
const maxForwarded = 32 << 10

// forwarded is what of a client's metadata goes to a control plane (ACC-6). Values are
// credentials: they are neither logged nor shown nor stored, and nothing is made of them
// but streams and the key.
type forwarded struct {
	// key is equal exactly if the values are; "" if there are none. It is in the key of
	// sessions, so that clients with other values share neither stream nor cache.
	key      string
	metadata map[string][]string
}

// forward takes what has one of the names out of a client's metadata. The error is a
// status, which ends the client's stream.
func forward(peer *keyer.Peer, names []string) (forwarded, error) {
	if len(names) == 0 || peer.Metadata == nil {
		return forwarded{}, nil
	}
	f := forwarded{metadata: make(map[string][]string)}
	size := 0
	for _, name := range names {
		values := peer.Metadata(name)
		if len(values) == 0 {
			continue
		}
		for _, v := range values {
			if !strings.HasSuffix(name, "-bin") && !keyer.PrintableMetadata(v) {
				return forwarded{}, status.Errorf(codes.InvalidArgument, "the relay forwards the metadata %q, but its value is not printable ASCII", name)
			}
			size += len(name) + len(v)
		}
		f.metadata[name] = slices.Clone(values)
	}
	switch {
	case size > maxForwarded:
		return forwarded{}, status.Errorf(codes.ResourceExhausted, "the relay forwards at most %d bytes of metadata", maxForwarded)
	case len(f.metadata) > 0:
		f.key = keyOf(f.metadata, names)
	}
	return f, nil
}

// keyOf is a hash of values under some of the names, every one with its length. The order
// of names in the configuration says nothing.
func keyOf(metadata map[string][]string, names []string) string {
	h := sha256.New()
	length := func(n int) { _, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	add := func(s string) {
		length(len(s))
		_, _ = h.Write([]byte(s)) // a hash takes everything
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if values := metadata[name]; len(values) > 0 {
			add(name)
			length(len(values))
			for _, v := range values {
				add(v)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
