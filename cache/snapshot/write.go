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
	"github.com/xdsrelay/xdsrelay/internal/wire"
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
	Left              int // resources that were left out because they are secret, or not to be cached
	Bytes             int64
}

// Write writes a snapshot. It leaves out what must not reach a disk (OPS-6).
func Write(to io.Writer, h *Header, i *cache.Image) (Counts, error) {
	return (&writer{secrets: h.Secrets}).write(to, h, i)
}

// Lend writes an image for another relay: the same bytes, but without the past, and with secrets if it may have them.
func Lend(to io.Writer, h *Header, i *cache.Image, secrets bool) (Counts, error) {
	return (&writer{secrets: h.Secrets, all: secrets}).write(to, h, &cache.Image{Tables: i.Tables})
}

func (w *writer) write(to io.Writer, h *Header, i *cache.Image) (Counts, error) {
	w.sum = crc32.New(castagnoli)
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
		if w.all || !w.secrets.Has(i.Tables[n].TypeURL) {
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
	all     bool // secrets are written, too
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
	resources, lacking := kept(t, w.hides)
	w.texts(lacking)
	w.end()
	w.counts.Tables++
	w.counts.Left += len(t.Resources) - len(resources)
	for n := range resources {
		r := &resources[n]
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

func (w *writer) hides(r *wire.Resource) bool { return !w.all && w.secrets.Sensitive(r) }

// LeaveSecrets takes out of an image what must not reach a disk (OPS-6).
func LeaveSecrets(i *cache.Image, secrets *payload.Secrets) {
	i.Tables = slices.DeleteFunc(i.Tables, func(t cache.TableImage) bool { return secrets.Has(t.TypeURL) })
	for n := range i.Tables {
		t := &i.Tables[n]
		t.Resources, t.Lacking = kept(t, secrets.Sensitive)
	}
}

// kept gives the resources of a table that may be written, and the collections that may have more members than these.
func kept(t *cache.TableImage, hides func(*wire.Resource) bool) (all []cache.ResourceImage, lacking []string) {
	leave := func(r cache.ResourceImage) bool { return r.Resource.DoNotCache || hides(r.Resource) }
	if !slices.ContainsFunc(t.Resources, leave) {
		return t.Resources, t.Lacking
	}
	lacking = slices.Clone(t.Lacking)
	for _, r := range t.Resources {
		if !leave(r) {
			all = append(all, r)
		} else if c := t.CollectionOf(r.Resource); c != "" && !slices.Contains(lacking, c) {
			lacking = append(lacking, c)
		}
	}
	return all, lacking
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
