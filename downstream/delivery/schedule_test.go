package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// dueTypes has the types of a schedule, as words: the type, and what is due of it.
func dueTypes(s *schedule, words ...string) {
	for _, word := range words {
		name, flags, has := strings.Cut(word, ":")
		url := map[string]string{"CDS": cds, "EDS": eds, "LDS": lds, "RDS": rds}[name]
		d := s.entry(&typeSub{typeURL: url, rank: xds.RankOf(url)})
		d.places, d.known = 1, true
		if !has {
			continue
		}
		for flag := range strings.SplitSeq(flags, ",") {
			switch flag {
			case "adds":
				d.adds = true
			case "removes":
				d.removes = true
			case "again":
				d.again = true
			case "heartbeats":
				d.heartbeats = true
			case "awaited":
				d.acks = Awaited
			case "list":
				d.full = true
			case "unknown":
				d.known = false
			case "incomplete":
				d.incomplete = true
			default:
				panic(flag)
			}
		}
	}
}

func TestScheduleSteps(t *testing.T) {
	what := map[action]string{
		sendRenewals: "renewals", sendAgain: "again", sendAdditions: "additions", sendChanges: "changes", sendOvertaken: "overtaken",
		sendRemovals: "removals", sendLastRemovals: "last removals", sendList: "list",
	}
	for _, tt := range []struct {
		name, due string
		state     bool
		warm      time.Duration
		want      string
		more      bool
	}{
		{name: "nothing", due: "CDS:heartbeats,awaited"},
		{name: "nothing of two types", due: "CDS EDS"},
		{name: "nothing in the state of the world", due: "CDS EDS LDS:list", state: true},
		{name: "TTL-1 renewals only", due: "CDS:heartbeats EDS", state: true, want: "CDS renewals"},
		{name: "ADS-1 by rank", due: "RDS:adds LDS:adds EDS:adds CDS:adds", want: "CDS additions, EDS additions, LDS additions, RDS additions"},
		{name: "ADS-1 removals of clusters last", due: "CDS:adds,removes RDS:adds", want: "CDS additions, RDS additions, CDS last removals"},
		{name: "ADS-1 removals of routes at once", due: "CDS:adds RDS:removes", want: "CDS additions, RDS additions, RDS removals"},
		{name: "ADS-1 removals that wait for nothing", due: "CDS:removes", want: "CDS additions, CDS removals"},
		{name: "ADS-2 awaited types wait", due: "CDS:adds,awaited", want: ""},
		{name: "ADS-2 unless a later one goes", due: "CDS:adds,removes,awaited EDS:adds", want: "CDS overtaken, EDS additions"},
		{name: "ACK-3 again whatever is awaited", due: "CDS:again,awaited", want: "CDS again"},
		{name: "TTL-1 heartbeats beside nothing", due: "CDS:heartbeats", want: "CDS additions"},
		{name: "TTL-1 renewals first", due: "CDS:adds,heartbeats", state: true, want: "CDS renewals, CDS changes"},
		{name: "RES-2 lists", due: "CDS:list,adds LDS:list,removes", state: true, want: "CDS list, LDS list"},
		{name: "ADS-2 an awaited list", due: "CDS:list,adds,awaited LDS:list,adds", state: true, want: "CDS list, LDS list"},
		{name: "ABS-3 a list of which nothing is known", due: "CDS:list,adds,unknown LDS:list,adds", state: true, want: ""},
		{name: "RES-2 later types wait for it", due: "CDS:list,adds,incomplete EDS:adds LDS:list,adds", state: true, want: "EDS changes"},
		{name: "WARM-4 listeners after clusters", due: "CDS:adds EDS:adds LDS:adds", warm: time.Second, want: "CDS additions, EDS additions", more: true},
		{name: "WARM-4 listeners without clusters", due: "EDS:adds LDS:adds", warm: time.Second, want: "EDS additions, LDS additions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := schedule{Pace: Pace{WarmWait: tt.warm, ListWait: time.Hour}, state: tt.state, at: time.Unix(1, 0)}
			dueTypes(&s, strings.Fields(tt.due)...)
			for i := range s.types() {
				s.types()[i].since = s.at
			}
			steps, more := s.steps(nil)
			var got []string
			for _, st := range steps {
				got = append(got, fmt.Sprint(short[st.typeURL], " ", what[st.what]))
			}
			if got := strings.Join(got, ", "); got != tt.want || more != tt.more {
				t.Errorf("%s, more: %t; want %s, %t", got, more, tt.want, tt.more)
			}
		})
	}
}

// A stream may subscribe to more types than a schedule has room for.
func TestScheduleOfManyTypes(t *testing.T) {
	var s schedule
	var want []string
	for i := range 3 * maxTypes {
		want = append(want, fmt.Sprintf("type%02d", i))
	}
	for i := range want {
		url := want[i*7%len(want)]
		for range 2 {
			s.entry(&typeSub{typeURL: url}).places++
		}
	}
	var got []string
	for _, d := range s.types() {
		got = append(got, d.typeURL)
		if d.places != 2 || s.of(d.typeURL).places != 2 {
			t.Errorf("%s is in %d places, want 2", d.typeURL, d.places)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Additions overtake an acknowledgement that is awaited only for a later type.
func TestOvertaken_ADS2(t *testing.T) {
	waits := typeDue{rank: xds.RankEndpoint, acks: Awaited, adds: true}
	for _, tc := range []struct {
		name string
		but  func(d *typeDue)
		last xds.Rank
		want bool
	}{
		{"a later type goes", func(*typeDue) {}, xds.RankEndpoint + 1, true},
		{"a type of the same rank goes", func(*typeDue) {}, xds.RankEndpoint, false},
		{"an earlier type goes", func(*typeDue) {}, xds.RankCluster, false},
		{"nothing is awaited", func(d *typeDue) { d.acks = Overdue }, xds.RankEndpoint + 1, false},
		{"there are removals only", func(d *typeDue) { d.adds, d.removes = false, true }, xds.RankEndpoint + 1, false},
		{"WARM-4 it waits for endpoints", func(d *typeDue) { d.held = true }, xds.RankEndpoint + 1, false},
		{"RES-2 the list is not complete", func(d *typeDue) { d.incomplete = true }, xds.RankEndpoint + 1, false},
	} {
		d := waits
		tc.but(&d)
		if got := d.overtaken(tc.last); got != tc.want {
			t.Errorf("%s: it overtakes: %t", tc.name, got)
		}
	}
}

// A list that would take something from a client waits, but not for ever: only before a server has said anything is
// restored content no reason to send it (SUR-1), and for the new clients of a relay even that is.
func TestIncompleteList_ABS3_RES2_SUR1(t *testing.T) {
	for _, tc := range []struct {
		name     string
		form     Form
		shows    string
		restored bool
		silent   bool // the server has said nothing
		during   bool // the list waits at first
		after    bool // and when the time is over
	}{
		{"nobody may lose anything", Form{State: true}, "", false, false, false, false},
		{"the client showed a version", Form{State: true}, "old", false, false, true, false},
		{"the client is a relay", Form{State: true, Relay: true}, "", false, false, true, false},
		{"nothing may be lost, and it is restored", Form{State: true}, "", true, false, false, false},
		{"the client showed a version, and it is restored", Form{State: true}, "old", true, false, true, true},
		{"nothing was said, and nothing is restored", Form{State: true}, "old", false, true, true, false},
		{"the client is a relay, and it is restored", Form{State: true, Relay: true}, "", true, false, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				b.join().sub(cds, "a")
				b.connect(0)
				b.says(cds, "+a@1")
				switch {
				case tc.restored:
					b = b.restart()
				case tc.silent:
					b = newBed(t, cache.Limits{})
				}
				c := b.joinAs(tc.form)
				c.show(cds, tc.shows, "a", "unknown")
				for _, want := range []bool{tc.during, tc.after} {
					s := schedule{Pace: Pace{ListHold: time.Minute}, state: true, store: b.store}
					if got := s.incomplete(c.c.find(cds)); got != want {
						t.Errorf("the list waits: %t, want %t", got, want)
					}
					<-time.After(time.Minute)
				}
			})
		})
	}
}
