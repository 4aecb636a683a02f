package snapshot

import (
	"bufio"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
)

// magic begins each file. The version of the format follows.
const (
	magic   = "XDSRELAY"
	version = 2
	// oldest is the oldest version that can be read: it has no generations.
	oldest = 1
)

// Records.
const (
	recordHeader   = 1
	recordTable    = 2
	recordResource = 3
	recordEnd      = 4
	recordPresent  = 5 // the present generation
	recordBurst    = 6
	recordBefore   = 7
)

// maxRecord bounds a record: no message of gRPC is larger.
const maxRecord = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header says what a file is of.
type Header struct {
	ID       string // of the store, see ID
	Upstream string
	Scope    string
	Written  time.Time
	// AsOf is when the contents were last known to be current. It is before Written if the
	// control plane was away, or had not confirmed what came from an earlier file.
	AsOf time.Time
	// Secrets are the types that Write leaves out, wherever their payloads lie. They are in no file.
	Secrets *payload.Secrets
}

// Counts say what is in a file.
type Counts struct {
	Tables, Resources int
	Left              int // resources that were left out because of secrets
	Bytes             int64
}

// Write writes a snapshot. It leaves out what must not reach a disk (OPS-6).
func Write(to io.Writer, h *Header, i *cache.Image) (Counts, error) {
	w := &writer{sum: crc32.New(castagnoli), secrets: h.Secrets}
	buffered := bufio.NewWriterSize(io.MultiWriter(to, &w.counts), 1<<16)
	w.to = io.MultiWriter(buffered, w.sum)
	w.raw(append([]byte(magic), binary.LittleEndian.AppendUint32(nil, version)...))
	w.begin(recordHeader)
	w.text(h.ID)
	w.text(h.Upstream)
	w.text(h.Scope)
	w.time(h.Written)
	w.time(h.AsOf)
	w.end()
	for n := range i.Tables {
		if !w.secrets.Has(i.Tables[n].TypeURL) {
			w.table(&i.Tables[n])
		}
	}
	w.past(&i.Past)
	w.begin(recordEnd)
	w.number(uint64(w.counts.Tables))
	w.number(uint64(w.counts.Resources))
	w.body = binary.LittleEndian.AppendUint32(w.body, w.sum.Sum32())
	w.end()
	if w.err == nil {
		w.err = buffered.Flush()
	}
	return w.counts, w.err
}

type writer struct {
	secrets *payload.Secrets
	to      io.Writer
	sum     hash.Hash32 // of everything so far
	counts  Counts
	body    []byte // of the record at hand
	err     error
}

// Write counts bytes on their way to the file.
func (c *Counts) Write(p []byte) (int, error) {
	c.Bytes += int64(len(p))
	return len(p), nil
}

func (w *writer) table(t *cache.TableImage) {
	w.begin(recordTable)
	w.text(t.TypeURL)
	w.number(uint64(t.Kind))
	w.text(t.SystemVersion)
	w.text(t.VersionInfo)
	w.texts(t.Collections)
	w.texts(t.Names)
	leave, lacking := w.leftOut(t)
	w.texts(lacking)
	w.end()
	w.counts.Tables++
	for n := range t.Resources {
		r := &t.Resources[n]
		if leave[n] {
			w.counts.Left++
			continue
		}
		if w.err != nil {
			return
		}
		w.begin(recordResource)
		w.time(r.Received)
		w.time(r.Deadline)
		w.number(uint64(r.Resource.TTL()))
		w.body = append(w.body, r.Resource.Raw()...)
		w.end()
		w.counts.Resources++
	}
}

// leftOut says which resources of a table are not for a disk, by their place, and which collections may have
// more members than the disk.
func (w *writer) leftOut(t *cache.TableImage) (leave map[int]bool, lacking []string) {
	leave, lacking = make(map[int]bool), slices.Clone(t.Lacking)
	for n := range t.Resources {
		r := t.Resources[n].Resource
		if !r.DoNotCache && !w.secrets.Sensitive(r) {
			continue
		}
		leave[n] = true
		if c := t.CollectionOf(r); c != "" && !slices.Contains(lacking, c) {
			lacking = append(lacking, c)
		}
	}
	return leave, lacking
}

// past writes the generations, the youngest first. One with a secret would lack it, so it is left out,
// and those before it.
func (w *writer) past(p *cache.PastImage) {
	w.begin(recordPresent)
	w.number(p.Number)
	w.time(p.Since)
	w.end()
	for _, b := range slices.Backward(p.Bursts) {
		if w.err != nil || slices.ContainsFunc(b.Before, w.isSecret) {
			return
		}
		w.begin(recordBurst)
		w.number(b.Number)
		w.time(b.Since)
		w.time(b.Began)
		w.time(b.Ended)
		w.end()
		for i := range b.Before {
			w.before(&b.Before[i])
		}
	}
}

func (w *writer) isSecret(b cache.BeforeImage) bool {
	return w.secrets.Has(b.TypeURL) || b.Resource != nil && w.secrets.Sensitive(b.Resource)
}

func (w *writer) before(b *cache.BeforeImage) {
	w.begin(recordBefore)
	w.text(b.TypeURL)
	w.number(uint64(b.Kind))
	w.text(b.Key)
	if b.Resource != nil {
		w.number(1 + uint64(b.Resource.TTL()))
		w.body = append(w.body, b.Resource.Raw()...)
	} else {
		w.number(0)
	}
	w.end()
}

func (w *writer) begin(kind byte) { w.body = append(w.body[:0], kind) }

func (w *writer) end() {
	var frame [8]byte
	binary.LittleEndian.PutUint32(frame[:4], uint32(len(w.body)))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(w.body, castagnoli))
	w.raw(frame[:])
	w.raw(w.body)
}

func (w *writer) raw(b []byte) {
	if w.err == nil {
		_, w.err = w.to.Write(b)
	}
}

func (w *writer) number(n uint64) { w.body = binary.AppendUvarint(w.body, n) }

func (w *writer) text(s string) {
	w.number(uint64(len(s)))
	w.body = append(w.body, s...)
}

func (w *writer) texts(all []string) {
	w.number(uint64(len(all)))
	for _, s := range all {
		w.text(s)
	}
}

// time writes nanoseconds since 1970; the zero time is 0.
func (w *writer) time(t time.Time) {
	if t.IsZero() {
		w.body = binary.AppendVarint(w.body, 0)
		return
	}
	w.body = binary.AppendVarint(w.body, t.UnixNano())
}
