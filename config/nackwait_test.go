package config

import (
	"testing"
	"time"
)

func TestNackWait_ACK7(t *testing.T) {
	for text, want := range map[string][2]time.Duration{
		"auto": {500 * time.Millisecond, time.Second}, "0s": {}, "2s": {2 * time.Second, 2 * time.Second},
	} {
		var w NackWait
		if err := w.UnmarshalText([]byte(text)); err != nil {
			t.Error(err)
		}
		if wait, relays := w.Std(); wait != want[0] || relays != want[1] || w.String() != text {
			t.Errorf("%s is %v, and %v for relays, written %s", text, wait, relays, w)
		}
	}
	if w := DefaultUpstream(); w.NackWait != AutoNackWait || w.NackShare != 10 {
		t.Errorf("by default %v and %v", w.NackWait, w.NackShare)
	}
	for _, text := range []string{"", "never", "-1s", "5"} {
		if err := new(NackWait).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
