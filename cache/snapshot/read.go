package snapshot

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// CorruptError is that a file is not what was written.
type CorruptError struct{ Reason string }

func (e *CorruptError) Error() string { return "corrupt snapshot: " + e.Reason }

// VersionError is that a file has a format that this build does not know.
type VersionError struct{ Version uint32 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("snapshot of format %d: this relay knows %d to %d", e.Version, oldest, version)
}

// errParameters refuses the file of an older relay, which kept what is for some dynamic parameters only (DYN-1).
var errParameters = corrupt("it has resources for dynamic parameters, which this relay does not serve")

func corrupt(format string, args ...any) error {
	return &CorruptError{Reason: fmt.Sprintf(format, args...)}
}

// Read reads a snapshot: all of it, or an error. The error is a *CorruptError, a *VersionError, or
// that of from. The resources are marked as restored.
func Read(from io.Reader) (*Header, *cache.Image, error) {
	r := &reader{from: bufio.NewReaderSize(from, 1<<16)}
	h, err := r.header()
	if err != nil {
		return nil, nil, err
	}
	i := new(cache.Image)
	for resources := uint64(0); ; {
		before := r.sum
		kind, err := r.record()
		if err != nil {
			return nil, nil, err
		}
		switch kind {
		case recordTable:
			i.Tables = append(i.Tables, r.table())
		case recordResource:
			if len(i.Tables) == 0 {
				return nil, nil, corrupt("a resource before its type")
			}
			resources++
			t := &i.Tables[len(i.Tables)-1]
			t.Resources = append(t.Resources, r.resource())
		case recordPresent:
			i.Past = cache.PastImage{Number: r.number(), Since: r.time()}
		case recordBurst:
			i.Past.Bursts = append(i.Past.Bursts, cache.BurstImage{Number: r.number(), Since: r.time(), Began: r.time(), Ended: r.time()})
		case recordBefore:
			if len(i.Past.Bursts) == 0 {
				return nil, nil, corrupt("a name of no generation")
			}
			b := &i.Past.Bursts[len(i.Past.Bursts)-1]
			b.Before = append(b.Before, r.before())
		case recordEnd:
			tables, all := r.number(), r.number()
			if len(r.body) != 4 || binary.LittleEndian.Uint32(r.body) != before || tables != uint64(len(i.Tables)) || all != resources {
				return nil, nil, corrupt("the end is that of another file")
			}
			if _, err := r.from.ReadByte(); !errors.Is(err, io.EOF) {
				return nil, nil, corrupt("something follows the end")
			}
			slices.Reverse(i.Past.Bursts)
			return h, i, nil
		default:
			return nil, nil, corrupt("record of kind %d", kind)
		}
		if r.err != nil {
			return nil, nil, r.err
		}
	}
}

// ReadHeader reads what a file is of, and no more. The errors are those of Read.
func ReadHeader(from io.Reader) (*Header, error) {
	r := &reader{from: bufio.NewReader(from)}
	return r.header()
}

type reader struct {
	from   *bufio.Reader
	sum    uint32 // of everything so far
	buffer bytes.Buffer
	body   []byte // the rest of the record at hand
	err    error  // of it
}

func (r *reader) header() (*Header, error) {
	start := make([]byte, len(magic)+4)
	if err := r.fill(start); err != nil {
		return nil, err
	}
	if string(start[:len(magic)]) != magic {
		return nil, corrupt("it does not begin with %q", magic)
	}
	if v := binary.LittleEndian.Uint32(start[len(magic):]); v < oldest || v > version {
		return nil, &VersionError{v}
	}
	kind, err := r.record()
	switch {
	case err != nil:
		return nil, err
	case kind != recordHeader:
		return nil, corrupt("record of kind %d in place of the header", kind)
	}
	h := &Header{ID: r.text(), Upstream: r.text(), Scope: r.text(), Written: r.time(), AsOf: r.time()}
	return h, r.err
}

// record reads the next record, and returns its kind.
func (r *reader) record() (kind byte, err error) {
	var frame [8]byte
	if err := r.fill(frame[:]); err != nil {
		return 0, err
	}
	size := binary.LittleEndian.Uint32(frame[:4])
	if size == 0 || size > maxRecord {
		return 0, corrupt("a record of %d bytes", size)
	}
	r.buffer.Reset() // it grows with what there is: a broken length takes no memory
	if _, err := io.CopyN(&r.buffer, r.from, int64(size)); err != nil {
		return 0, cut(err)
	}
	r.body = r.buffer.Bytes()
	r.sum = crc32.Update(r.sum, castagnoli, r.body)
	if crc32.Checksum(r.body, castagnoli) != binary.LittleEndian.Uint32(frame[4:]) {
		return 0, corrupt("the checksum of a record does not match")
	}
	kind, r.body = r.body[0], r.body[1:]
	return kind, nil
}

func (r *reader) fill(b []byte) error {
	if _, err := io.ReadFull(r.from, b); err != nil {
		return cut(err)
	}
	r.sum = crc32.Update(r.sum, castagnoli, b)
	return nil
}

// cut makes an error of a file that ends too early.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return corrupt("it ends too early")
	}
	return err
}

func (r *reader) table() cache.TableImage {
	typeURL, kind := r.text(), r.number()
	if kind > uint64(cache.ByName) && r.err == nil {
		r.err = corrupt("a table of kind %d", kind)
		return cache.TableImage{}
	}
	t := cache.TableImage{
		TypeURL: typeURL, Kind: cache.Kind(kind), SystemVersion: r.text(), VersionInfo: r.text(),
		Collections: r.texts(), Names: r.texts(),
	}
	if r.err == nil && slices.ContainsFunc(t.Names, wire.IsReserved) {
		r.err = errParameters
	}
	if r.err == nil && len(r.body) > 0 { // an older relay wrote no such list
		if all := r.texts(); len(all) > 0 {
			t.Lacking = all
		}
	}
	return t
}

func (r *reader) resource() cache.ResourceImage {
	i := cache.ResourceImage{Received: r.time(), Deadline: r.time()}
	ttl := time.Duration(r.number())
	if r.err == nil {
		var err error
		if i.Resource, err = wire.Restore(r.body, ttl); err != nil {
			r.err = corrupt("%v", err)
		} else if i.Resource.Constrained() {
			r.err = errParameters
		}
	}
	return i
}

func (r *reader) before() cache.BeforeImage {
	typeURL, kind := r.text(), r.number()
	b := cache.BeforeImage{TypeURL: typeURL, Kind: cache.Kind(kind & 1), Key: r.text()}
	ttl := r.number()
	if kind > uint64(cache.ByName) && r.err == nil {
		r.err = corrupt("a name of kind %d", kind)
	}
	if r.err != nil || ttl == 0 {
		return b
	}
	var err error
	if b.Resource, err = wire.Restore(r.body, time.Duration(ttl-1)); err != nil {
		r.err = corrupt("%v", err)
	}
	return b
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.body)
	return took(r, n, size)
}

func (r *reader) time() time.Time {
	n, size := binary.Varint(r.body)
	if took(r, n, size) == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

// took goes on behind a number.
func took[N int64 | uint64](r *reader, n N, size int) N {
	if size <= 0 {
		r.fail()
		return 0
	}
	r.body = r.body[size:]
	return n
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = corrupt("a record ends too early")
	}
	r.body = nil
}

func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.body)) {
		r.fail()
		return ""
	}
	s := string(r.body[:n])
	r.body = r.body[n:]
	return s
}

func (r *reader) texts() []string {
	n := r.number()
	if n > uint64(len(r.body)) { // each has a length
		r.fail()
		return nil
	}
	all := make([]string, 0, min(n, 1<<10)) // it grows with what there is
	for range n {
		all = append(all, r.text())
		if r.err != nil {
			return nil
		}
	}
	return all
}
