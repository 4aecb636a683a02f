package downstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// brief is what the admin port shows of a type of the only client.
func (h *harness) brief(typeURL string) string {
	h.Helper()
	v := h.status().Types[typeURL]
	if census := h.server.Census()[typeURL]; v.Subscriptions > 0 && (len(census) != 1 || census[v.State] != 1) {
		h.Errorf("the census has %v, and the client is %s", census, v.State)
	}
	all := []string{fmt.Sprintf("%s %s waits:%s sent:%s held:%s", v.State, v.Config, v.WaitsFor, v.Sent, v.Held)}
	for _, r := range v.Rejects {
		all = append(all, fmt.Sprintf("rejects:%s@%s,%t", r.Name, r.Version, r.Alone))
	}
	if len(v.Unanswered)+len(v.Missing) > 0 {
		all = append(all, fmt.Sprintf("unanswered:%v missing:%v", v.Unanswered, v.Missing))
	}
	return strings.Join(all, " ")
}

func (h *harness) shows(want string) {
	h.Helper()
	if got := h.brief(clusterType); got != want {
		h.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestClients_CSDS1(t *testing.T) {
	runAll(t, []scenario{
		{"CSDS-1 a client acknowledges, is behind, rejects, and has what repairs that", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.slowClient()
			c.subscribe(clusterType)
			got := c.wants("Cluster +a=1 +b=1")
			h.shows("behind STALE waits:ack sent:system-1 held:")
			c.ack(got[0])
			h.shows("current SYNCED waits: sent:system-1 held:system-1")
			h.opaque.set(clusterType, "2", "a")
			got = c.wants("Cluster +a=2")
			h.shows("behind STALE waits:ack sent:system-2 held:system-1")
			c.nack(got[0], "bad")
			h.shows("rejecting ERROR waits: sent:system-2 held:system-1 rejects:a@2,true")
			if census := fmt.Sprint(h.server.Census()[clusterType]); census != "map[rejecting:1]" {
				h.Errorf("the census has %s", census)
			}
			h.opaque.set(clusterType, "3", "a")
			c.ack(c.wants("Cluster +a=3")[0])
			h.shows("current SYNCED waits: sent:system-3 held:system-3")
		}},
		{"CSDS-1 a client that is being served is no client that is behind", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			got := c.wants("Cluster +a=1")
			own := func(want string) {
				h.Helper()
				for _, m := range h.server.present() {
					st, is := m.(*stream)
					if !is || !st.take() {
						h.Fatal("the stream is not at rest")
					}
					h.shows(want)
					st.giveBack()
				}
			}
			own("behind STALE waits:ack sent: held:")
			c.ack(got[0])
			h.quiet()
			own("current SYNCED waits: sent: held:")
			h.opaque.set(clusterType, "2", "a")
			got = c.wants("Cluster +a=2")
			h.advance(time.Second)
			c.nack(got[0], "bad")
			h.quiet()
			own("rejecting ERROR waits: sent: held:")
		}},
		{"CSDS-1 a client that does not read is shown, and nobody waits for it", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.deafClient()
			c.subscribe(clusterType)
			h.quiet()
			for i := range 20 {
				h.opaque.set(clusterType, strings.Repeat("x", 8<<10)+fmt.Sprint(i), "a")
				h.advance(2 * time.Second)
			}
			v := h.status().Types[clusterType]
			if v.State != Behind || v.WaitsFor != delivery.WaitsForACK || v.BehindSince.IsZero() || !time.Now().After(v.BehindSince) {
				h.Errorf("shown as %+v", v)
			}
		}},
		{"SUR-8 a name that the control plane does not answer, and one that does not exist", func(h *harness) {
			h.opaque.set(clusterType, "1", "x")
			h.opaque.away = true
			c := h.client()
			c.subscribe(clusterType, "x", "y")
			h.shows("waiting NOT_SENT waits:name sent: held: unanswered:[x y] missing:[]")
			h.opaque.away = false
			c.wants("Cluster +x=1 -y")
			h.shows("current SYNCED waits: sent:system-1 held:system-1 unanswered:[] missing:[y]")
		}},
	})
}

func TestGone(t *testing.T) {
	runAll(t, []scenario{
		{"STR-5 a client that went is remembered for an hour, with the reason", func(h *harness) {
			c := h.client()
			c.send(&request{TypeUrl: clusterType, Node: node("n")})
			h.quiet()
			c.cancel()
			h.quiet()
			if all := h.server.Gone(); len(all) != 1 || all[0].Node != "n" || all[0].Why != WhyClient || all[0].Code != "Canceled" {
				h.Errorf("gone: %+v", all)
			}
			h.advance(time.Hour + time.Second)
			if all := h.server.Gone(); len(all) != 0 {
				h.Errorf("after an hour: %+v", all)
			}
		}},
	})
	t.Run("LIM-3 at most a thousand are remembered, the last ones", func(t *testing.T) {
		var s Server
		for i := range mostGone + 5 {
			s.gone.add(Gone{Status: Status{ID: uint64(i)}, At: time.Now()})
		}
		all := s.Gone()
		least := all[0].ID
		for i := range all {
			least = min(least, all[i].ID)
		}
		if len(all) != mostGone || least != 5 {
			t.Errorf("%d, from %d", len(all), least)
		}
	})
}
