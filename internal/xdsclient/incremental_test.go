package xdsclient

import (
	"strings"
	"testing"
)

func TestRES14_versionsThatDoNotFit(t *testing.T) {
	over(t, overADS()[:1], func(s *script) {
		c := s.client(Options{})
		c.maxRequest = nameRoom + 100
		c.Subscribe(clusterType)
		stop := running(s.T, c)
		s.send(clusterType, "1", "a@"+strings.Repeat("x", 100))
		_ = stop()
		s.next()
		running(s.T, c)
		expect(s.T, "requests", []string{"Cluster"}, s.next())
		expect(s.T, "held", 0, c.Len(clusterType))
		expect(s.T, "unanswered", []string{clusterType}, c.Unanswered())
	})
}

func TestRES17_longSubscriptionsAreSplit(t *testing.T) {
	over(t, overADS()[:1], func(s *script) {
		c := s.client(Options{})
		c.maxRequest = 100
		names := []string{strings.Repeat("a", 40), strings.Repeat("b", 200), strings.Repeat("c", 10), strings.Repeat("d", 10)}
		c.Subscribe(clusterType, names...)
		running(s.T, c)
		expect(s.T, "requests", []string{"Cluster +" + names[0], "Cluster +" + names[1], "Cluster +" + names[2] + " +" + names[3]}, s.next())
		c.Unsubscribe(clusterType, names...)
		expect(s.T, "requests", 3, len(s.next()))
	})
}
