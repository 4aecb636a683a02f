package xdsclient

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestUnsubscribe(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		subscribe, sent, drop   []string
		heldAfter, askedForThen []string
	}{
		{"SUB-7 a name", []string{"a", "b"}, []string{"a@1", "b@1"}, []string{"a", "z"}, []string{"b@1"}, []string{"b"}},
		{"SUB-8 a name that the wildcard may hold", []string{"*", "a"}, []string{"a@1"}, []string{"a"}, []string{"a@1"}, []string{"*"}},
		{"SUB-3 the wildcard", []string{"*", "a"}, []string{"a@1", "b@1"}, []string{"*"}, []string{"a@1"}, []string{"a"}},
		{"GLOB-5 a name that a glob holds", []string{dir + "*", dir + "a"}, []string{dir + "a@1"}, []string{dir + "a"}, []string{dir + "a@1"}, []string{dir + "*"}},
		{"GLOB-5 a glob", []string{dir + "*", dir + "a"}, []string{dir + "a@1", dir + "b@1"}, []string{dir + "*"}, []string{dir + "a@1"}, []string{dir + "a"}},
		{"RES-10 an alias", []string{"www", "w3", "x"}, []string{"host|www@1", "other|w3@1"}, []string{"www"}, []string{"other@1"}, []string{"w3", "x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			over(t, variants(), func(s *script) {
				c := s.client(Options{})
				c.Subscribe(clusterType, tt.subscribe...)
				running(s.T, c)
				s.send(clusterType, "1", tt.sent...)
				c.Unsubscribe(clusterType, tt.drop...)
				expect(s.T, "held", tt.heldAfter, holds(c, clusterType))
				expect(s.T, "subscribed", tt.askedForThen, s.subscribed(clusterType))
			})
		})
	}
}

func TestWait(t *testing.T) {
	over(t, variants(), func(s *script) {
		c := s.client(Options{})
		c.Subscribe(clusterType, "a")
		c.Subscribe(endpointType, "e")
		running(s.T, c)
		expect(s.T, "unanswered", []string{clusterType, endpointType}, c.Unanswered())
		go s.sendMessage(clusterType, s.response(clusterType, "1", "a@1"))
		if err := c.Wait(s.Context(), func(c *Client) bool { return c.Len(clusterType) == 1 }); err != nil {
			s.Error(err)
		}
		expect(s.T, "unanswered", []string{endpointType}, c.Unanswered())
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := c.Wait(ctx, func(c *Client) bool { return len(c.Unanswered()) == 0 }); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Wait: %v", err)
		}
	})
}

func TestHoldAcks(t *testing.T) {
	over(t, overGRPC(), func(s *script) {
		c := s.client(Options{})
		c.HoldAcks(true)
		c.Subscribe(clusterType, "a")
		stop := running(s.T, c)
		s.next()
		s.send(clusterType, "1", "a@1")
		s.send(clusterType, "2", "a@2")
		expect(s.T, "answers held back", nil, s.next())
		expect(s.T, "held", []string{"a@2"}, holds(c, clusterType))
		c.Subscribe(clusterType, "b")
		s.next() // STR-9: before any answer it has no nonce
		expect(s.T, "answers held back", nil, s.answered())
		c.HoldAcks(false)
		expect(s.T, "answers", []string{"ack n1", "ack n2"}, s.answered())
		// Answers have the names of now: with those of then they would take b back.
		expect(s.T, "subscribed", []string{"a", "b"}, s.subscribed(clusterType))
		c.HoldAcks(true)
		s.send(clusterType, "3", "a@2", "b@1")
		_ = stop()
		running(s.T, c)
		c.HoldAcks(false) // nonces mean nothing on another stream (STR-3)
		expect(s.T, "answers on another stream", nil, s.answered())
	})
}

func TestOPS3_pause(t *testing.T) {
	over(t, variants(), func(s *script) {
		c := s.client(Options{})
		c.Subscribe(clusterType)
		running(s.T, c)
		c.Pause()
		c.Pause()
		s.send(clusterType, "1", "a@1")
		expect(s.T, "answers", nil, s.answered())
		expect(s.T, "held", 0, c.Len(clusterType))
		c.Resume()
		c.Resume()
		expect(s.T, "answers", []string{"ack n1"}, s.answered())
		expect(s.T, "held", 1, c.Len(clusterType))

		c.Pause()
		s.send(clusterType, "2", "c@1")
		// It ends although it is paused: see the cleanup of running.
	})
}
