package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// dueTypes has the types of a schedule, as words: the type, and what is due of it.
func dueTypes(s *schedule, words ...string) {
	for _, word := range words {
		name, flags, _ := strings.Cut(word, ":")
		url := map[string]string{"CDS": cds, "EDS": eds, "LDS": lds, "RDS": rds}[name]
		d := s.entry(&typeSub{typeURL: url, rank: cache.RankOf(url)})
		d.places, d.known = 1, true
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
