package watch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const (
	timeFormat = "15:04:05.000"
	maxColumn  = 64 // a longer name makes its own line longer only
	maxVersion = 24 // characters shown of a version
)

// ANSI escape sequences.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	dim    = "\x1b[2m"
	reset  = "\x1b[0m"
)

// text shows an event as lines: one for each change, and one that sums up.
func (w *watcher) text(e event) []byte {
	var b bytes.Buffer
	head := e.at.Format(timeFormat) + "  "
	if e.typeURL != "" {
		head += logs.Printable(keyer.ShortName(e.typeURL)) + "  "
	}
	switch {
	case e.response != nil:
		w.textResponse(&b, head, e.response)
	case e.lost != nil:
		w.line(&b, red, fmt.Sprintf("%s%s, next try in %v: %s", head, w.ended(e), round(e.delay), logs.Printable(e.lost.Error())))
		w.hint(&b, e.lost)
	default:
		w.line(&b, dim, head+"connected to "+logs.Printable(w.options.Target))
	}
	return b.Bytes()
}

// hint shows the remedy for a lost stream, once.
func (w *watcher) hint(b *bytes.Buffer, lost error) {
	if w.options.Hint == nil {
		return
	}
	if h := w.options.Hint(lost); h != "" && h != w.hinted {
		w.hinted = h
		w.line(b, red, "hint: "+h)
	}
}

// ended says what it means that a stream ended.
func (w *watcher) ended(e event) string {
	switch {
	case !e.open:
		return "no connection"
	case w.options.APIType == REST:
		return "poll failed"
	default:
		return "stream lost"
	}
}

func (w *watcher) textResponse(b *bytes.Buffer, head string, r *xdsclient.Response) {
	head += logs.Printable(keyer.ShortName(r.TypeURL)) + "  "
	rows := make([]row, 0, len(r.Changes))
	var name, version int
	for i := range r.Changes {
		if w.repeats(&r.Changes[i]) {
			continue
		}
		next := w.row(&r.Changes[i])
		rows = append(rows, next)
		name = max(name, min(maxColumn, utf8.RuneCountInString(next.name)))
		version = max(version, min(maxColumn, utf8.RuneCountInString(next.version)))
	}
	for _, row := range rows {
		line := fmt.Sprintf("%s%c %-*s  %-*s  %s", head, row.sign, name, row.name, version, row.version, row.note)
		w.line(b, row.color, strings.TrimRight(line, " "))
		if w.options.Payload {
			indented(b, new(payload.Secrets).JSON(row.resource, r.TypeURL, payload.AsBase64))
		}
	}
	w.line(b, dim, head+summary(r))
}

// line writes a line in a color, where there are colors.
func (w *watcher) line(b *bytes.Buffer, color, s string) {
	if w.options.Color && color != "" {
		s = color + s + reset
	}
	b.WriteString(s)
	b.WriteByte('\n')
}

// row is the line of a change.
type row struct {
	sign          rune
	color         string
	name, version string
	note          string
	resource      *wire.Resource // nil without
}

func (w *watcher) row(ch *xdsclient.Change) row {
	r := row{sign: '?', name: logs.Printable(ch.Name), version: version(ch.Version), resource: ch.Resource}
	if ch.Resource != nil && ch.Resource.HasPayload() {
		r.note = size(w.sizeOf(ch.Resource))
	}
	switch ch.Kind {
	case xdsclient.Added:
		r.sign, r.color = '+', green
	case xdsclient.Changed:
		r.sign, r.color = '~', yellow
		r.version = version(ch.Old) + " → " + version(ch.Version)
	case xdsclient.Unchanged:
		r.sign, r.color = '=', dim
	case xdsclient.Heartbeat:
		r.sign, r.color, r.note = '=', dim, "heartbeat"
	case xdsclient.Removed:
		r.sign, r.color, r.version = '-', red, version(ch.Old)
	case xdsclient.Absent:
		r.sign, r.color, r.note = '-', dim, "does not exist"
	case xdsclient.Failed:
		r.sign, r.color = '!', red
		r.name = cmp.Or(r.name, xdsclient.Wildcard) // the wildcard, which has no name where nobody named it
		r.note = ch.Error.Code.String() + ": " + logs.Printable(ch.Error.Message)
	case xdsclient.Unrequested:
		r.note = strings.TrimSpace(r.note + " not asked for")
	}
	return r
}

// summary sums a response up.
func summary(r *xdsclient.Response) string {
	if r.Err != nil {
		return "response rejected: " + logs.Printable(r.Err.Error())
	}
	var parts []string
	for _, k := range kinds() {
		if n := r.Count(k); n > 0 {
			parts = append(parts, strconv.Itoa(n)+" "+k.String())
		}
	}
	s := cmp.Or(strings.Join(parts, ", "), "nothing") + " in " + size(r.Size)
	if r.SystemVersion != "" {
		s += ", version " + version(r.SystemVersion)
	}
	if r.Nonce != "" { // REST needs none
		s += ", nonce " + logs.Printable(r.Nonce)
	}
	return s
}

// kinds lists the kinds of change in the order in which they are counted.
func kinds() []xdsclient.Kind {
	return []xdsclient.Kind{
		xdsclient.Added, xdsclient.Changed, xdsclient.Removed, xdsclient.Unchanged,
		xdsclient.Heartbeat, xdsclient.Absent, xdsclient.Failed, xdsclient.Unrequested,
	}
}

// indented writes a payload below the line of its change.
func indented(b *bytes.Buffer, shown json.RawMessage) {
	if shown == nil {
		return
	}
	const margin = "    "
	b.WriteString(margin)
	var text bytes.Buffer
	if err := json.Indent(&text, shown, margin, "  "); err != nil {
		text.Write(shown)
	}
	b.WriteString(logs.PrintableLines(text.String())) // JSON needs no escapes for some characters
	b.WriteByte('\n')
}

// version shows the beginning of a version.
func version(s string) string {
	if s == "" {
		return "-"
	}
	s = logs.Printable(s)
	if utf8.RuneCountInString(s) > maxVersion {
		s = string([]rune(s)[:maxVersion-1]) + "…"
	}
	return s
}

// size shows a number of bytes.
func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}
