package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// labelWidth is what the names of the values take.
const labelWidth = 15

// style is how a piece of a line looks where colours are allowed.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	green  style = "32"
	yellow style = "33"
	title  style = "1;36"
)

// piece is a part of a line in one style.
type piece struct {
	style style
	text  string
}

// Frame gives the picture of a snapshot for a terminal: at most height lines
// (any number if 0) of at most width characters each (if it is not 0).
func Frame(s Snapshot, width, height int, color bool) []string {
	rows := append(head(s, width), values(s)...)
	rows = append(rows, nil)
	// The last events are those that matter.
	room := maxEvents
	if height > 0 {
		room = min(room, max(0, height-len(rows)))
	}
	for _, e := range s.Events[max(0, len(s.Events)-room):] {
		rows = append(rows, []piece{{dim, fmt.Sprintf("  %5s  ", clock(e.At))}, {plain, e.Text}})
	}
	if height > 0 && len(rows) > height {
		rows = rows[:height]
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		lines[i] = render(row, width, color)
	}
	return lines
}

// maxEvents is more than a demo that goes well has.
const maxEvents = 10

// head is the title with the time, and the phases.
func head(s Snapshot, width int) [][]piece {
	const name = "xdsrelay demo"
	time := clock(s.Elapsed) + " of " + clock(s.Duration)
	gap := "  "
	if width > 0 {
		gap = strings.Repeat(" ", max(2, width-len(name)-len(time)))
	}
	var phases []piece
	for p := Connect; p <= Check; p++ {
		if p > Connect {
			phases = append(phases, piece{dim, " > "})
		}
		switch {
		case p == s.Phase:
			phases = append(phases, piece{bold, "[" + p.String() + "]"})
		case p < s.Phase:
			phases = append(phases, piece{plain, p.String()})
		default:
			phases = append(phases, piece{dim, p.String()})
		}
	}
	return [][]piece{{{title, name}, {plain, gap + time}}, phases, nil}
}

// values are what was measured.
func values(s Snapshot) [][]piece {
	row := func(label string, pieces ...piece) []piece {
		return append([]piece{{plain, fmt.Sprintf("  %-*s", labelWidth, label)}}, pieces...)
	}
	say := func(format string, args ...any) piece { return piece{plain, fmt.Sprintf(format, args...)} }

	clients := say(" connected of %s, %s got all they asked for", count(s.Wanted), count(s.Complete))
	plane := row("control plane", piece{green, "up"}, say(": %s, %s instead of %s",
		plural(s.Streams, "stream"), plural(s.UpstreamSubscriptions, "upstream subscription"), count(s.Subscriptions)))
	if s.AwayFor > 0 {
		plane = row("control plane", piece{yellow, "away for " + short(s.AwayFor)}, say(": %s", plural(s.Streams, "stream")))
	}
	times := say("nothing in the last seconds")
	if s.P50 > 0 {
		times = say("p50 %s, p99 %s from the control plane to clients", short(s.P50), short(s.P99))
	}
	rows := [][]piece{
		row("clients", piece{green, count(s.Connected)}, clients),
		plane,
		row("updates", say("%s/s by the control plane, %s/s to clients", rate(s.UpdateRate), rate(s.DeliveryRate))),
		row("fan-out", piece{bold, fmt.Sprintf("%.1f", s.FanOut())}, say(": %s delivered / %s received upstream", count(s.Delivered), count(s.Received))),
		row("propagation", times),
	}
	if s.Phase >= Away {
		rows = append(rows, row("outage", piece{bold, count(s.Joined)}, say(" new clients served from the cache without a control plane")))
	}
	return rows
}

// render puts a line together, cut to width.
func render(row []piece, width int, color bool) string {
	var b strings.Builder
	room := width
	for _, p := range row {
		text := p.text
		if width > 0 {
			text = cut(text, room)
			room -= utf8.RuneCountInString(text)
		}
		if color && p.style != plain && text != "" {
			fmt.Fprintf(&b, "\x1b[%sm%s\x1b[0m", p.style, text)
		} else {
			b.WriteString(text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cut gives the first n characters of a text.
func cut(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// Line gives a snapshot as one line.
func Line(s Snapshot) string {
	plane := plural(s.Streams, "upstream stream") + ", " + plural(s.UpstreamSubscriptions, "subscription")
	if s.AwayFor > 0 {
		plane = "control plane away for " + short(s.AwayFor)
	}
	times := "no updates"
	if s.P50 > 0 {
		times = fmt.Sprintf("p50 %s p99 %s", short(s.P50), short(s.P99))
	}
	return fmt.Sprintf("%5s  %s: %s of %s clients; %s; fan-out %.1f; %s/s updates, %s/s delivered; %s",
		clock(s.Elapsed), s.Phase, count(s.Connected), count(s.Wanted), plane, s.FanOut(),
		rate(s.UpdateRate), rate(s.DeliveryRate), times)
}
