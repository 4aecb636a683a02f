package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// corruptly reads a file, and returns why it is corrupt; "" if it is not.
func corruptly(t *testing.T, file []byte) string {
	t.Helper()
	_, _, err := Read(bytes.NewReader(file))
	if err == nil {
		return ""
	}
	bad, ok := errors.AsType[*CorruptError](err)
	if !ok {
		t.Fatalf("the file is read with %v", err)
	}
	return bad.Reason
}

// recordsOf are the records of a file, without the end.
func recordsOf(t *testing.T, i *cache.Image) (start []byte, bodies [][]byte) {
	t.Helper()
	file := fileOf(t, i)
	at := len(magic) + 4
	for start = file[:at]; at < len(file); {
		size := int(binary.LittleEndian.Uint32(file[at:]))
		bodies = append(bodies, file[at+8:at+8+size])
		at += 8 + size
	}
	return start, bodies[:len(bodies)-1]
}

// fileWith has some records, and any end.
func fileWith(start []byte, bodies [][]byte, end func(w *writer, sum uint32)) []byte {
	var b bytes.Buffer
	w := &writer{to: &b}
	w.raw(start)
	for _, body := range bodies {
		w.body = bytes.Clone(body)
		w.end()
	}
	w.begin(recordEnd)
	end(w, crc32.Checksum(b.Bytes(), castagnoli))
	w.end()
	return b.Bytes()
}

// endOf writes an end.
func endOf(tables, resources uint64) func(*writer, uint32) {
	return func(w *writer, sum uint32) {
		w.number(tables)
		w.number(resources)
		w.body = binary.LittleEndian.AppendUint32(w.body, sum)
	}
}

// The end says what is before it. A file with any other end is damaged.
func TestEnd_SUR1(t *testing.T) {
	start, bodies := recordsOf(t, imageOfState(t, 1, 2))
	for what, tc := range map[string]struct {
		end  func(*writer, uint32)
		good bool
	}{
		"the right one":          {endOf(1, 2), true},
		"another table":          {endOf(2, 2), false},
		"a resource less":        {endOf(1, 1), false},
		"another checksum":       {func(w *writer, sum uint32) { endOf(1, 2)(w, sum+1) }, false},
		"something behind it":    {func(w *writer, sum uint32) { endOf(1, 2)(w, sum); w.body = append(w.body, 0) }, false},
		"no checksum":            {func(w *writer, _ uint32) { w.number(1); w.number(2) }, false},
		"half a checksum":        {func(w *writer, _ uint32) { w.number(1); w.number(2); w.body = append(w.body, 0, 0) }, false},
		"neither number":         {func(*writer, uint32) {}, false},
		"a number without bytes": {func(w *writer, _ uint32) { w.body = append(w.body, 0x80) }, false},
	} {
		if why := corruptly(t, fileWith(start, bodies, tc.end)); (why == "") != tc.good {
			t.Errorf("%s is read: %q", what, why)
		}
	}
}

// A record is as long as a record may be, and says so where it is not.
func TestRecordSize_SUR1(t *testing.T) {
	start, _ := recordsOf(t, &cache.Image{})
	for size, want := range map[uint32]string{
		0: "a record of 0 bytes", maxRecord: "it ends too early", maxRecord + 1: "a record of 1073741825 bytes",
	} {
		frame := binary.LittleEndian.AppendUint32(bytes.Clone(start), size)
		if why := corruptly(t, append(frame, 0, 0, 0, 0)); why != want {
			t.Errorf("%d bytes: %q, want %q", size, why, want)
		}
	}
}

// A record that breaks off is damage, wherever it does, even if its checksum is right. A table without the last
// of its lists is from an older relay.
func TestRecordsBreakOff_SUR1(t *testing.T) {
	i := imageOfPast(t)
	i.Tables[0].Resources = nil
	start, bodies := recordsOf(t, i)
	for n, body := range bodies {
		kind, lists := body[0], 0
		if kind == recordBefore {
			continue // the rest of it is content
		}
		for size := 1; size < len(body); size++ {
			cut := append([][]byte{}, bodies...)
			cut[n] = body[:size]
			switch why := corruptly(t, fileWith(start, cut, endOf(1, 0))); {
			case why == "" && kind == recordTable:
				lists++
			case why == "":
				t.Errorf("%d of %d bytes of a record of kind %d are read", size, len(body), kind)
			case !strings.Contains(why, "too early"):
				t.Errorf("%d of %d bytes of a record of kind %d: %s", size, len(body), kind, why)
			}
		}
		if want := map[bool]int{true: 1}[kind == recordTable]; lists != want {
			t.Errorf("%d parts of a record of kind %d are read, want %d", lists, kind, want)
		}
	}
}

// The file of an older relay that served dynamic parameters is refused with this reason (DYN-1).
func TestParametersOfOlderRelay_DYN1_SUR1(t *testing.T) {
	resource := cache.ResourceImage{Resource: words.Constrained(listenerType, "x@1").AsRestored()}
	for what, table := range map[string]cache.TableImage{
		"a resource": {TypeURL: listenerType, Kind: cache.ByName, Names: []string{"x"}, Resources: []cache.ResourceImage{resource}},
		"a name":     {TypeURL: listenerType, Kind: cache.ByName, Names: []string{"a", "\x00env=prod\x00x"}},
	} {
		why := corruptly(t, fileOf(t, &cache.Image{Tables: []cache.TableImage{table}}))
		if why != "it has resources for dynamic parameters, which this relay does not serve" {
			t.Errorf("%s is read: %q", what, why)
		}
	}
}
