package config

import (
	"log/slog"
	"slices"
	"strings"
)

// Policy is what happens to a client that no aggregation rule matches (AGG-2).
type Policy string

// The policies.
const (
	Share   Policy = "share"   // one scope for all of them
	Isolate Policy = "isolate" // a scope for each node and TLS identity
	Refuse  Policy = "refuse"  // no service
)

// UnmarshalText takes share, isolate or refuse.
func (p *Policy) UnmarshalText(text []byte) error {
	return oneOf(p, text, Share, Isolate, Refuse)
}

// Effect is what an access rule does to a name that it matches (ACC-2).
type Effect string

// The effects.
const (
	Allow Effect = "allow" // the client gets the resource
	Deny  Effect = "deny"  // the client is told PERMISSION_DENIED, whether the resource exists or not
)

// UnmarshalText takes allow or deny.
func (e *Effect) UnmarshalText(text []byte) error {
	return oneOf(e, text, Allow, Deny)
}

// LogLevel is the least important level that is logged.
type LogLevel string

// The levels.
const (
	LevelDebug LogLevel = "debug"
	LevelInfo  LogLevel = "info"
	LevelWarn  LogLevel = "warn"
	LevelError LogLevel = "error"
)

// UnmarshalText takes debug, info, warn or error.
func (l *LogLevel) UnmarshalText(text []byte) error {
	return oneOf(l, text, LevelDebug, LevelInfo, LevelWarn, LevelError)
}

// Slog gives the standard library's level, info for a level that it does not know.
func (l LogLevel) Slog() slog.Level {
	switch l {
	case LevelDebug:
		return slog.LevelDebug
	case LevelWarn:
		return slog.LevelWarn
	case LevelError:
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// LogFormat is the form of a log line.
type LogFormat string

// The formats.
const (
	FormatText LogFormat = "text" // key=value
	FormatJSON LogFormat = "json" // one object per line
)

// UnmarshalText takes text or json.
func (f *LogFormat) UnmarshalText(text []byte) error {
	return oneOf(f, text, FormatText, FormatJSON)
}

// APIType is the transport variant that an upstream speaks, under the name that
// it has in Envoy's ApiConfigSource.
type APIType string

// The variants.
const (
	AggregatedDeltaGRPC APIType = "AGGREGATED_DELTA_GRPC" // incremental ADS (VAR-4)
	AggregatedGRPC      APIType = "AGGREGATED_GRPC"       // state of the world, ADS (VAR-3)
	DeltaGRPC           APIType = "DELTA_GRPC"            // incremental, a stream for each type (VAR-2)
	GRPC                APIType = "GRPC"                  // state of the world, a stream for each type (VAR-1)
	REST                APIType = "REST"                  // REST-JSON polling (VAR-5)
)

// UnmarshalText takes the names of the variants.
func (t *APIType) UnmarshalText(text []byte) error {
	return oneOf(t, text, AggregatedDeltaGRPC, AggregatedGRPC, DeltaGRPC, GRPC, REST)
}

// WentBack is what the relay does where content goes back to what it was before (SUR-7).
type WentBack string

// The ways.
const (
	ReportBack WentBack = "report" // it warns and counts
	IgnoreBack WentBack = "off"    // it does not look
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *WentBack) UnmarshalText(text []byte) error {
	return oneOf(w, text, ReportBack, IgnoreBack)
}

// Wildcard is how an incremental control plane is asked for all resources of a type (SUB-14).
type Wildcard string

// The forms.
const (
	AutoWildcard     Wildcard = "auto"     // by a first request without names, and by "*" too where that stays unanswered
	LegacyWildcard   Wildcard = "legacy"   // by a first request without names
	ExplicitWildcard Wildcard = "explicit" // by "*"
)

// UnmarshalText takes auto, legacy or explicit.
func (w *Wildcard) UnmarshalText(text []byte) error {
	return oneOf(w, text, AutoWildcard, LegacyWildcard, ExplicitWildcard)
}

// LoadReports is what becomes of the load reports of clients (LRS-1).
type LoadReports string

// What can become of them.
const (
	AggregateLoadReports LoadReports = "aggregate" // the control plane gets their sums, one report for each scope
	LoadReportsOff       LoadReports = "off"       // they are refused
)

// UnmarshalText takes aggregate or off.
func (r *LoadReports) UnmarshalText(text []byte) error {
	return oneOf(r, text, AggregateLoadReports, LoadReportsOff)
}

// Admission is how clients join (LIM-1).
type Admission string

// The ways.
const (
	AutoAdmission Admission = "auto" // as many at a time as the relay can serve; others wait, or are refused
	AdmissionOff  Admission = "off"  // all at the same time
)

// UnmarshalText takes auto or off.
func (a *Admission) UnmarshalText(text []byte) error {
	return oneOf(a, text, AutoAdmission, AdmissionOff)
}

// Unserved is whether a relay that can serve none of its clients is ready (SUR-5).
type Unserved string

// The ways.
const (
	UnservedOn  Unserved = "on"  // it is not, so that clients go to another relay
	UnservedOff Unserved = "off" // it is: all relays share one upstream, and clients have no other server
)

// UnmarshalText takes on or off.
func (u *Unserved) UnmarshalText(text []byte) error {
	return oneOf(u, text, UnservedOn, UnservedOff)
}

// oneOf sets v to text if it is one of the choices.
func oneOf[T ~string](v *T, text []byte, choices ...T) error {
	if !slices.Contains(choices, T(text)) {
		names := make([]string, len(choices))
		for i, c := range choices {
			names[i] = string(c)
		}
		return mismatchFor("one of "+strings.Join(names, ", "), text, meantChoice(string(text), names))
	}
	*v = T(text)
	return nil
}

// meantChoice is the choice that a text most likely stands for, or begins with; "" if there is none.
func meantChoice(text string, names []string) string {
	for _, name := range names {
		if strings.HasPrefix(strings.ToLower(text), strings.ToLower(name)) {
			return name
		}
	}
	return nearest(text, names, min(3, max(1, len(text)/3)))
}
