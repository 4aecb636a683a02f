package quota

import (
	"iter"
	"testing"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// gathering is a usage with its members.
type gathering struct {
	*testing.T

	usage   Usage
	members []Client
	limit   Limit
}

// come adds so many of one client, and returns the first verdict against it.
func (g *gathering) come(n int, addr, identity string) Result {
	who := Client{AddressOf(addr + ":1"), identity}
	for range n {
		if v := g.usage.Admit(g.limit, len(g.members), 1, who, g.others()); v != Admitted {
			return v
		}
		g.members = append(g.members, who)
	}
	return Admitted
}

func (g *gathering) others() iter.Seq2[Client, int] {
	return func(yield func(Client, int) bool) {
		for _, who := range g.members {
			if !yield(who, 1) {
				return
			}
		}
	}
}

// leave removes so many, those that came last first.
func (g *gathering) leave(n int) {
	for range n {
		last := len(g.members) - 1
		who := g.members[last]
		g.members = g.members[:last]
		g.usage.Release(g.limit, last, 1, who)
	}
}

func (g *gathering) wants(got, want Result) {
	g.Helper()
	if got != want {
		g.Errorf("with %d members the verdict is %d, want %d", len(g.members), got, want)
	}
}

func TestCrowd_LIM1(t *testing.T) {
	for name, f := range map[string]func(g *gathering){
		"one may have all until a tenth is left": func(g *gathering) {
			g.wants(g.come(90, "10.0.0.1", "spiffe://td/a"), Admitted)
			if g.usage.Counting() {
				g.Error("who comes from where is counted while there is room")
			}
			g.wants(g.come(1, "10.0.0.1", ""), Shared)
			g.wants(g.come(1, "10.0.0.2", "spiffe://td/a"), Shared)
			g.wants(g.come(1, "[::ffff:10.0.0.1]", ""), Shared)
			g.wants(g.come(5, "10.0.0.2", "spiffe://td/b"), Admitted)
			g.wants(g.come(1, "10.0.0.2", ""), Shared)
			g.wants(g.come(5, "10.0.0.3", ""), Admitted)
			g.wants(g.come(1, "10.0.0.4", ""), Full)
		},
		"an IPv6 network is one address": func(g *gathering) {
			g.wants(g.come(90, "10.0.0.1", ""), Admitted)
			g.wants(g.come(3, "[2001:db8::1]", ""), Admitted)
			g.wants(g.come(2, "[2001:db8::2]", ""), Admitted)
			g.wants(g.come(1, "[2001:db8::3]", ""), Shared)
			g.wants(g.come(1, "[2001:db8:0:1::1]", ""), Admitted)
		},
		"who is not known is not counted": func(g *gathering) {
			for range 100 {
				g.wants(g.come(1, "a unix socket", ""), Admitted)
			}
			g.wants(g.come(1, "a unix socket", ""), Full)
		},
		"who leaves makes room": func(g *gathering) {
			g.wants(g.come(10, "10.0.0.1", ""), Admitted)
			g.wants(g.come(80, "10.0.0.2", ""), Admitted)
			g.wants(g.come(1, "10.0.0.2", ""), Shared)
			g.leave(31)
			g.wants(g.come(40, "10.0.0.2", ""), Shared)
			if n := len(g.members); n != 90 {
				g.Errorf("%d members, want 90", n)
			}
			g.leave(24)
			if g.usage.Counting() {
				g.Error("who comes from where is counted while there is room")
			}
		},
		"a lower limit counts those who are there": func(g *gathering) {
			g.limit.Most = 0
			g.wants(g.come(200, "10.0.0.1", ""), Admitted)
			g.limit.Most = 210
			g.wants(g.come(1, "10.0.0.1", ""), Shared)
			g.wants(g.come(1, "10.0.0.2", ""), Admitted)
			g.limit.Most = 100
			g.wants(g.come(1, "10.0.0.2", ""), Full)
			g.limit.Most = 0
			g.wants(g.come(1, "10.0.0.1", ""), Admitted)
			if g.usage.Counting() {
				g.Error("who comes from where is counted without a limit")
			}
		},
	} {
		t.Run(name, func(t *testing.T) { f(&gathering{T: t, limit: Limit{Most: 100, Share: 0.05}}) })
	}
}

// Every process of a machine has all of 127.0.0.0/8.
func TestLoopback_LIM1(t *testing.T) {
	for text, want := range map[string]string{
		"127.0.0.1:1": "127.0.0.0/8", "127.200.3.4:1": "127.0.0.0/8", "[::ffff:127.0.0.9]:1": "127.0.0.0/8",
		"[::1]:1": "::/64", "10.0.0.1:1": "10.0.0.1/32",
	} {
		if got := AddressOf(text).String(); got != want {
			t.Errorf("LIM-1: %s counts as %s, want %s", text, got, want)
		}
	}
}

// Two CAs, or two issuers of tokens, may give one name to two clients.
func TestSameName_LIM1(t *testing.T) {
	for text, of := range map[string]func(issuer string) keyer.Peer{
		"certificate": func(issuer string) keyer.Peer { return keyer.Peer{Subject: "CN=web", Issuer: issuer} },
		"SPIFFE ID":   func(issuer string) keyer.Peer { return keyer.Peer{SPIFFE: "spiffe://td/web", Issuer: issuer} },
		"token": func(issuer string) keyer.Peer {
			return keyer.Peer{Token: &keyer.Token{Issuer: issuer, Subject: "web"}}
		},
	} {
		one, other, again := of("CN=one"), of("CN=other"), of("CN=one")
		if ClientOf(&one) == ClientOf(&other) || ClientOf(&one) != ClientOf(&again) {
			t.Errorf("LIM-1: %s: %v, %v, %v", text, ClientOf(&one), ClientOf(&other), ClientOf(&again))
		}
	}
	if nobody := (keyer.Peer{Issuer: "CN=one"}); ClientOf(&nobody).Identity != "" {
		t.Error("LIM-1: a client without a name counts for its issuer")
	}
}
