package admin

import "time"

// About is what a relay says of itself.
type About struct {
	Version      string        `json:"version"`
	Started      time.Time     `json:"started,omitzero"`
	Ready        bool          `json:"ready"` // for new clients
	Reason       string        `json:"reason"`
	File         string        `json:"file,omitempty"` // of the configuration
	Hash         string        `json:"hash"`           // of that in force
	InForceSince time.Time     `json:"in_force_since"`
	Failed       string        `json:"failed,omitempty"` // why the relay did not take the last configuration that it read
	FailedAt     time.Time     `json:"failed_at,omitzero"`
	Refuses      bool          `json:"refuses,omitempty"`         // that is: it would refuse too many clients
	Waiting      []string      `json:"waiting,omitempty"`         // keys that wait for a restart
	LastGone     time.Time     `json:"last_client_gone,omitzero"` // when a stream of a client ended last
	Certificates []Certificate `json:"certificates,omitempty"`
}

// Certificate is one that the relay shows others, as it stands in its file.
type Certificate struct {
	Key     string    `json:"key"` // of the configuration
	File    string    `json:"file"`
	From    time.Time `json:"from,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	Error   string    `json:"error,omitempty"` // why it cannot be read
}

// near reports whether a certificate should have been renewed by now: less than a fifth of its life is left,
// and less than a week.
func (c *Certificate) near(now time.Time) bool {
	left := c.Expires.Sub(now)
	return left < 7*24*time.Hour && left < c.Expires.Sub(c.From)/5
}
