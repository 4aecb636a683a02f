package deltaclient

import "github.com/xdsrelay/xdsrelay/internal/xdsclient"

// What package xdsclient has, for those who use only this variant.
type (
	Client   = xdsclient.Client
	Options  = xdsclient.Options
	Response = xdsclient.Response
	Change   = xdsclient.Change
	Kind     = xdsclient.Kind
	Held     = xdsclient.Held
	State    = xdsclient.State
	Keep     = xdsclient.Keep
	Backoff  = xdsclient.Backoff
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
