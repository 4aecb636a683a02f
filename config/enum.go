package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
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

// AggregatedDeltaGRPC is incremental ADS (VAR-4), the only variant that is
// spoken upstream so far.
const AggregatedDeltaGRPC APIType = "AGGREGATED_DELTA_GRPC"

// UnmarshalText takes the names that are supported, tells a name that Envoy
// knows from one that it does not, and lists what there is.
func (t *APIType) UnmarshalText(text []byte) error {
	if APIType(text) == AggregatedDeltaGRPC {
		*t = AggregatedDeltaGRPC
		return nil
	}
	known := envoyAPITypes()
	if slices.Contains(known, string(text)) {
		return fmt.Errorf("%s is not supported yet, expected %s", text, AggregatedDeltaGRPC)
	}
	return mismatch("one of "+strings.Join(known, ", "), text)
}

// envoyAPITypes lists Envoy's own names in the order of their numbers, without
// the one that says of itself that it must not be used.
func envoyAPITypes() []string {
	values := corev3.ApiConfigSource_ApiType(0).Descriptor().Values()
	var names []string
	for i := range values.Len() {
		if name := string(values.Get(i).Name()); !strings.HasPrefix(name, "DEPRECATED") {
			names = append(names, name)
		}
	}
	return names
}

// oneOf sets v to text if it is one of the choices.
func oneOf[T ~string](v *T, text []byte, choices ...T) error {
	if !slices.Contains(choices, T(text)) {
		names := make([]string, len(choices))
		for i, c := range choices {
			names[i] = string(c)
		}
		return mismatch("one of "+strings.Join(names, ", "), text)
	}
	*v = T(text)
	return nil
}
