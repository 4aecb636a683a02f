package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Screen shows snapshots. Draw is called by one goroutine at a time, several
// times a second and at every event.
type Screen interface {
	Draw(s Snapshot)
}

// Lines is a Screen for whatever is no terminal: each event as it comes, and the
// state every few seconds.
type Lines struct {
	out    io.Writer
	events int           // printed
	next   time.Duration // when the state is due
}

// NewLines makes a Lines that writes to out.
func NewLines(out io.Writer) *Lines { return &Lines{out: out} }

// How often the state is printed; the start is short.
const (
	lineEvery        = 5 * time.Second
	connectLineEvery = time.Second
)

// Draw implements Screen.
func (l *Lines) Draw(s Snapshot) {
	var b strings.Builder
	for _, e := range s.Events[l.events:] {
		fmt.Fprintf(&b, "%5s  %s\n", clock(e.At), e.Text)
	}
	l.events = len(s.Events)
	if s.Elapsed >= l.next {
		every := lineEvery
		if s.Phase == Connect {
			every = connectLineEvery
		}
		if l.next > 0 { // there is nothing to see yet at first
			b.WriteString(Line(s) + "\n")
		}
		l.next = s.Elapsed.Truncate(every) + every
	}
	write(l.out, b.String())
}

// Terminal is a Screen that is drawn over and over in the same place.
type Terminal struct {
	out   io.Writer
	size  func() (width, height int)
	color bool
	drawn []int // the widths of the lines that stand there
}

// NewTerminal makes a Terminal that writes to out, whose size is asked for each
// time it is drawn; 0 stands for unknown. It hides the cursor until Close, which
// must be called.
func NewTerminal(out io.Writer, color bool, size func() (width, height int)) *Terminal {
	write(out, "\x1b[?25l")
	return &Terminal{out: out, size: size, color: color}
}

// Draw implements Screen.
func (t *Terminal) Draw(s Snapshot) {
	width, height := t.size()
	if height > 0 {
		height-- // the line below, where the cursor waits
	}
	var b strings.Builder
	if up := t.rows(width); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	t.drawn = t.drawn[:0]
	// Counted without colours, printed with them.
	for _, line := range Frame(s, width, height, false) {
		t.drawn = append(t.drawn, utf8.RuneCountInString(line))
	}
	for _, line := range Frame(s, width, height, t.color) {
		b.WriteString(line + "\x1b[K\r\n")
	}
	b.WriteString("\x1b[J")
	write(t.out, b.String())
}

// rows is how many rows what was drawn takes now: a terminal that has become
// narrower breaks lines.
func (t *Terminal) rows(width int) int {
	n := 0
	for _, drawn := range t.drawn {
		n++
		if width > 0 && drawn > width {
			n += (drawn - 1) / width
		}
	}
	return n
}

// Close gives the cursor back. What was drawn stays.
func (t *Terminal) Close() { write(t.out, "\x1b[?25h") }

// write writes to somebody who looks on: if he has gone there is nobody to tell.
func write(out io.Writer, s string) {
	if s != "" {
		_, _ = io.WriteString(out, s)
	}
}
