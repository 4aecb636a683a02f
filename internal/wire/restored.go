package wire

import (
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Restore makes a resource of bytes that Raw returned in an earlier process, with the ttl that it
// had, 0 for none. The result is marked as restored: no server has said in this process that the
// resource exists. It does not keep raw. The error says that the bytes are no resource.
func Restore(raw []byte, ttl time.Duration) (*Resource, error) {
	if ttl > 0 {
		var d []byte
		d = protowire.AppendTag(d, fieldDurationSeconds, protowire.VarintType)
		d = protowire.AppendVarint(d, uint64(ttl/time.Second))
		d = protowire.AppendTag(d, fieldDurationNanos, protowire.VarintType)
		d = protowire.AppendVarint(d, uint64(ttl%time.Second))
		raw = append(appendBytesTag(slices.Clip(raw), fieldTTL, len(d)), d...)
	}
	if len(raw) > math.MaxInt32 {
		return nil, fmt.Errorf("wire: a resource of %d bytes", len(raw))
	}
	var c cutter
	r, err := c.cut(raw)
	if err != nil {
		return nil, fmt.Errorf("wire: restored resource: %w", err)
	}
	r.marks |= restored
	return r, nil
}

// Restored reports whether the content comes from an earlier process, and no server has confirmed
// it in this one (SUR-1).
func (r *Resource) Restored() bool { return r.marks&restored != 0 }

// AsRestored returns the resource marked as restored. The bytes are shared.
func (r *Resource) AsRestored() *Resource {
	if r.Restored() {
		return r
	}
	marked := *r
	marked.marks |= restored
	return &marked
}

// Confirmed returns the resource without the mark: a server has confirmed it. The bytes are
// shared.
func (r *Resource) Confirmed() *Resource {
	if !r.Restored() {
		return r
	}
	confirmed := *r
	confirmed.marks &^= restored
	return &confirmed
}
