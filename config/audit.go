package config

// Audit says where the relay writes who was refused, was given secrets, or gave a command.
type Audit struct {
	To    string     `yaml:"to"` // "": nowhere; stderr, or the path of a file
	Level AuditLevel `yaml:"level"`
}

// AuditStderr is the value of Audit.To for standard error.
const AuditStderr = "stderr"

// AuditLevel says which decisions are written.
type AuditLevel string

// The levels.
const (
	AuditDenied AuditLevel = "denied" // refusals, and names of types.secret
	AuditAll    AuditLevel = "all"    // names that are allowed too
)

// UnmarshalText takes denied or all.
func (l *AuditLevel) UnmarshalText(text []byte) error { return oneOf(l, text, AuditDenied, AuditAll) }
