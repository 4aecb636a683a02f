package xdsclient

import (
	"strings"
	"testing"
)

func TestRES14_versionsThatDoNotFit(t *testing.T) {
	over(t, overADS()[:1], func(t *testing.T, s *script) {
		c := s.client(Options{})
		c.maxRequest = nameRoom + 100
		c.Subscribe(clusterType)
		stop := running(t, c)
		s.send(t, clusterType, "1", "a@"+strings.Repeat("x", 100))
		_ = stop()
		s.next()
		running(t, c)
		expect(t, "requests", []string{"Cluster"}, s.next())
		expect(t, "held", 0, c.Len(clusterType))
		expect(t, "unanswered", []string{clusterType}, c.Unanswered())
	})
}

func TestRES17_longSubscriptionsAreSplit(t *testing.T) {
	over(t, overADS()[:1], func(t *testing.T, s *script) {
		c := s.client(Options{})
		c.maxRequest = 100
		names := []string{strings.Repeat("a", 40), strings.Repeat("b", 200), strings.Repeat("c", 10), strings.Repeat("d", 10)}
		c.Subscribe(clusterType, names...)
		running(t, c)
		expect(t, "requests", []string{"Cluster +" + names[0], "Cluster +" + names[1], "Cluster +" + names[2] + " +" + names[3]}, s.next())
		c.Unsubscribe(clusterType, names...)
		expect(t, "requests", 3, len(s.next()))
	})
}
