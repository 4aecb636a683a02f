package deltaclient

import "github.com/xdsrelay/xdsrelay/internal/xdsclient"

// The names of package xdsclient, so that who uses only this variant needs only
// this package.
type (
	// Client is [xdsclient.Client].
	Client = xdsclient.Client
	// Options are [xdsclient.Options].
	Options = xdsclient.Options
	// Response is [xdsclient.Response].
	Response = xdsclient.Response
	// Change is [xdsclient.Change].
	Change = xdsclient.Change
	// Kind is [xdsclient.Kind].
	Kind = xdsclient.Kind
	// Held is [xdsclient.Held].
	Held = xdsclient.Held
	// State is [xdsclient.State].
	State = xdsclient.State
	// Keep is [xdsclient.Keep].
	Keep = xdsclient.Keep
	// Backoff is [xdsclient.Backoff].
	Backoff = xdsclient.Backoff
)

// Wildcard is [xdsclient.Wildcard].
const Wildcard = xdsclient.Wildcard

// The kinds of change.
const (
	Added       = xdsclient.Added
	Changed     = xdsclient.Changed
	Unchanged   = xdsclient.Unchanged
	Heartbeat   = xdsclient.Heartbeat
	Removed     = xdsclient.Removed
	Absent      = xdsclient.Absent
	Failed      = xdsclient.Failed
	Unrequested = xdsclient.Unrequested
)

// What a client keeps.
const (
	KeepVersions  = xdsclient.KeepVersions
	KeepDigests   = xdsclient.KeepDigests
	KeepResources = xdsclient.KeepResources
)

// The states of a name.
const (
	NotSubscribed = xdsclient.NotSubscribed
	Unanswered    = xdsclient.Unanswered
	Present       = xdsclient.Present
	NotExisting   = xdsclient.NotExisting
	Failing       = xdsclient.Failing
)

// ErrRunning is [xdsclient.ErrRunning].
var ErrRunning = xdsclient.ErrRunning

// DefaultBackoff is [xdsclient.DefaultBackoff].
func DefaultBackoff() Backoff { return xdsclient.DefaultBackoff() }
