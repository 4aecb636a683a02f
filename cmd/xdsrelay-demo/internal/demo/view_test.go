package demo

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not what %s holds, which -update writes anew (-want +got):\n%s", path, diff)
	}
}

// snapshots are of a demo that goes as it should.
func snapshots() []Snapshot {
	events := []Event{
		{0, "control plane on 127.0.0.1:38243, relay on 127.0.0.1:38421"},
		{1400 * time.Millisecond, "1,000 clients hold all 100 clusters, and the endpoints of 10 or so"},
		{31 * time.Second, "the control plane is killed: its streams are cut, its port is closed"},
	}
	return []Snapshot{
		{
			Phase: Connect, Elapsed: 900 * time.Millisecond, Duration: time.Minute,
			Wanted: 1000, Connected: 340, Complete: 327, Subscriptions: 3740, Streams: 1, UpstreamSubscriptions: 106,
			Received: 200, Delivered: 35_970, DeliveryRate: 39_000, Events: events[:1],
		},
		{
			Phase: Updates, Elapsed: 12 * time.Second, Duration: time.Minute,
			Wanted: 1000, Connected: 1000, Complete: 1000, Subscriptions: 11_000, Streams: 1, UpstreamSubscriptions: 106,
			Received: 560, Delivered: 152_412, UpdateRate: 31.6, DeliveryRate: 4012,
			P50: 1_240 * time.Microsecond, P99: 14_300 * time.Microsecond, Events: events[:2],
		},
		{
			Phase: Away, Elapsed: 37 * time.Second, Duration: time.Minute, AwayFor: 6 * time.Second,
			Wanted: 1100, Connected: 1100, Complete: 1100, Joined: 100, Subscriptions: 12_100,
			Received: 1240, Delivered: 230_001, Events: events,
		},
	}
}

func TestFrame(t *testing.T) {
	var b strings.Builder
	for _, s := range snapshots() {
		for _, line := range Frame(s, 80, 24, false) {
			b.WriteString(line + "|\n")
		}
		b.WriteString("\n")
	}
	golden(t, "frame80.golden", b.String())
}

func TestFrameFits(t *testing.T) {
	for _, s := range snapshots() {
		for width := range 100 {
			for height := range 30 {
				lines := Frame(s, width, height, false)
				if height > 0 && len(lines) > height {
					t.Fatalf("%d lines where there is room for %d", len(lines), height)
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(line); width > 0 && n > width {
						t.Fatalf("%d characters where there is room for %d: %q", n, width, line)
					}
				}
			}
		}
	}
}

// Colours are laid over the same characters.
func TestFrameColors(t *testing.T) {
	for _, s := range snapshots() {
		bare, colored := Frame(s, 60, 20, false), Frame(s, 60, 20, true)
		stripped := make([]string, len(colored))
		for i, line := range colored {
			for {
				before, after, escape := strings.Cut(line, "\x1b[")
				stripped[i] += before
				if !escape {
					break
				}
				_, line, _ = strings.Cut(after, "m")
			}
			stripped[i] = strings.TrimRight(stripped[i], " ")
		}
		if diff := cmp.Diff(bare, stripped); diff != "" {
			t.Errorf("colours change the text (-without +with):\n%s", diff)
		}
		if cmp.Equal(bare, colored) {
			t.Error("there are no colours")
		}
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := NewLines(&out)
	for _, s := range snapshots() {
		l.Draw(Snapshot{Phase: s.Phase, Duration: s.Duration, Events: s.Events}) // at the beginning, for the event only
		l.Draw(s)
		l.Draw(s) // says nothing new
	}
	golden(t, "lines.golden", out.String())
}

func TestTerminal(t *testing.T) {
	var out bytes.Buffer
	width := 80
	terminal := NewTerminal(&out, false, func() (int, int) { return width, 24 })
	for _, s := range snapshots() {
		terminal.Draw(s)
	}
	width = 40
	terminal.Draw(snapshots()[0])
	terminal.Close()
	golden(t, "terminal.golden", strings.ReplaceAll(out.String(), "\x1b", "^"))
}

func TestSummaryText(t *testing.T) {
	s := Summary{
		Converged: true, Seconds: 59.4,
		Clients:     ClientSummary{Total: 1100, Converged: 1100, Subscriptions: 12_100},
		Upstream:    UpstreamSummary{Streams: 1, StreamsOpened: 2, Subscriptions: 106, Resources: 1891},
		Delivered:   Delivered{Resources: 283_097},
		FanOut:      149.7,
		Propagation: Times{Count: 154_188, P50: 1.21, P99: 23.4, Max: 51},
		Outage:      Outage{Seconds: 12.9, Joined: 100, Start: Times{100, 5.2, 18, 18}, Recovery: 0.8},
	}
	b := s
	b.Converged, b.Interrupted, b.Clients.Converged = false, true, 1099
	b.Clients.StreamsLost, b.Delivered.Unrequested = 2, 1
	b.Outage, b.Propagation = Outage{}, Times{}
	b.Differences = []Difference{
		{7, clusterType, "cluster-001", "0123456789abcdef", ""}, {7, endpointType, "cluster-002", "0123456789", "abcdef0123"},
	}
	golden(t, "summary.golden", s.String()+"\n"+b.String())
}
