package xdsclient

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

func TestRES13_announcement(t *testing.T) {
	over(t, overADS()[1:], func(s *script) {
		node := &corev3.Node{Id: "n", ClientFeatures: []string{"f"}}
		c := s.client(Options{Node: node, ResourceInSotW: true})
		c.Subscribe(clusterType)
		running(s.T, c)
		expect(s.T, "requests", []string{"Cluster node=n,f,xds.config.resource-in-sotw,xds.config.supports-resource-in-sotw []"}, s.next())
		expect(s.T, "the caller's node", []string{"f"}, node.GetClientFeatures())
		expect(s.T, "features without a node, announced twice", 2, len(announced(announced(nil)).GetClientFeatures()))
	})
}

func TestACK5_whatTheVersionDoesNotHold(t *testing.T) {
	over(t, overADS()[1:], func(s *script) {
		for presents, want := range map[bool]string{false: "Cluster [*]", true: "Cluster [*] v=1"} {
			c := s.client(Options{PresentVersion: presents})
			c.Subscribe(clusterType)
			stop := running(s.T, c)
			s.send(clusterType, "1", "a@1")
			_ = stop()
			s.next()
			c.Subscribe(clusterType, "*")
			c.Unsubscribe(clusterType, "*")
			c.Subscribe(clusterType, "*")
			stop = running(s.T, c)
			expect(s.T, "requests", []string{want}, s.next())
			_ = stop()
		}
	})
}

func TestSTR9_latestNonce(t *testing.T) {
	over(t, overADS()[1:], func(s *script) {
		c := s.client(Options{})
		c.Subscribe(clusterType, "a")
		running(s.T, c)
		c.HoldAcks(true)
		s.send(clusterType, "1", "a@1")
		s.next()
		c.Subscribe(clusterType, "b")
		expect(s.T, "a request before any answer", []string{"Cluster [a b] v=1"}, s.next())
		c.HoldAcks(false)
		c.Subscribe(clusterType, "c")
		expect(s.T, "the answer, and a request after it", []string{"Cluster [a b] v=1 ack=n1", "Cluster [a b c] v=1 ack=n1"}, s.next())
	})
}

func TestERR1_RES8_anErrorExcusesOnItsStreamOnly(t *testing.T) {
	over(t, overADS()[1:], func(s *script) {
		c := s.client(Options{})
		c.Subscribe(clusterType)
		stop := running(s.T, c)
		s.send(clusterType, "1", "a@1", "b@1")
		s.send(clusterType, "2", "a@1", "?b")
		_ = stop()
		expect(s.T, "held without a stream", []string{"a@1", "b@1"}, holds(c, clusterType))
		running(s.T, c)
		s.send(clusterType, "3", "a@1")
		expect(s.T, "held after a list of another stream", []string{"a@1"}, holds(c, clusterType))
	})
}
