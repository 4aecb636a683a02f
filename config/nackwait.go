package config

import "time"

// NackWait is how long an ACK waits for clients; 0: not at all.
type NackWait Duration

// AutoNackWait is 500 milliseconds, and a second where clients are relays.
const AutoNackWait NackWait = -1

const autoNackWait = "auto"

// Std gives the wait, and that for clients that are relays.
func (w NackWait) Std() (wait, relays time.Duration) {
	if w == AutoNackWait {
		return 500 * time.Millisecond, time.Second
	}
	return time.Duration(w), time.Duration(w)
}

// String gives what UnmarshalText takes.
func (w NackWait) String() string {
	if w == AutoNackWait {
		return autoNackWait
	}
	return Duration(w).String()
}

// MarshalText gives auto, or a duration.
func (w NackWait) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText takes auto, or a duration.
func (w *NackWait) UnmarshalText(text []byte) error {
	if string(text) == autoNackWait {
		*w = AutoNackWait
		return nil
	}
	var d Duration
	if err := d.UnmarshalText(text); err != nil {
		return mismatchFor("auto, or a duration such as 500ms or 2s", text, meantDuration(string(text)))
	}
	*w = NackWait(d)
	return nil
}
