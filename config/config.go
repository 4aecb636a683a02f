// Package config is the relay's configuration: the YAML file's types, their
// defaults, and a validation that says what is wrong by file, line and column.
//
// Four layers make a [Config], each over the one before: [Default], the file,
// the environment ([EnvPrefix] and the key's path), the flags of [AddFlags].
// The file is read strictly: a key that nobody knows, a key given twice and a
// value of the wrong kind are errors, and all of them are reported together.
//
// The package owns what a configuration may say. It opens no listener, builds
// no TLS configuration and watches no file: cmd loads a Config and hands it to
// the rooms, which take from it what they need. Two readings of the file are
// kept from drifting apart by having only one: the YAML tree is decoded and
// checked in a single walk (decode.go), and viper is given the typed results to
// lay the environment and the flags over. It therefore never sees the keys of a
// free map, which it would turn to lower case.
//
// A Config is not safe for use while somebody changes it; nothing here does.
package config

// EnvPrefix begins the name of every environment variable that sets a key: the
// key's path follows in upper case with "_" for ".", so that
// XDSRELAY_SERVER_LISTEN sets server.listen.
const EnvPrefix = "XDSRELAY_"

// Config is a whole configuration file. [Load] and [Parse] give valid ones; one
// that is built by hand begins with [Default] and ends with [Config.Validate].
type Config struct {
	Server      Server      `yaml:"server"`
	Admin       Admin       `yaml:"admin"`
	Upstreams   []Upstream  `yaml:"upstreams"`
	Node        Node        `yaml:"node"`
	Aggregation Aggregation `yaml:"aggregation"`
	Cache       Cache       `yaml:"cache"`
	Resolve     Resolve     `yaml:"resolve"`
	Log         Log         `yaml:"log"`

	// FullStateTypes are the types, by short name or type URL, whose
	// state-of-the-world responses are always complete (RES-2).
	// [Config.FullStateTypeURLs] gives them resolved.
	FullStateTypes []string `yaml:"full_state_types"`

	// from says where each value was given, so that Validate can point at it.
	// Nil for a configuration built by hand.
	from origins
	// file is the one it was loaded from, "" if there was none.
	file string
	// scalars are the strings of the file, nil without one.
	scalars *scalars
	// compiled are the rules as they were when the configuration was loaded.
	compiled *compiled
}

// Server is the side towards the clients.
type Server struct {
	Listen     string     `yaml:"listen"`        // host:port; an empty host means every address
	TLS        *ServerTLS `yaml:"tls,omitempty"` // nil: plaintext
	TLSRefresh Duration   `yaml:"tls_refresh"`   // how often the TLS files are looked at

	MaxMessageSize   Size     `yaml:"max_message_size"`  // responses are split below it (RES-9)
	MaxReceiveSize   Size     `yaml:"max_receive_size"`  // largest request taken (OPS-5)
	MaxSubscriptions int      `yaml:"max_subscriptions"` // of one stream, over all types (OPS-5); 0: no limit
	AckWait          Duration `yaml:"ack_wait"`          // how long a type's next response waits for the ACK of the last (ADS-2)
	RemovalWait      Duration `yaml:"removal_wait"`      // how long removals of clusters and endpoints wait (ADS-4)
	WarmWait         Duration `yaml:"warm_wait"`         // how long listeners and routes wait for endpoints of new clusters (WARM-4)
	ListHold         Duration `yaml:"list_hold"`         // how long lists wait for what cannot be reached (ABS-3)
	UnreachableAfter Duration `yaml:"unreachable_after"` // since when nobody goes on waiting for an upstream (ABS-2); 0: for ever
	Drain            Duration `yaml:"drain"`             // over which a shutdown spreads its clients (OPS-4)

	Keepalive     Keepalive `yaml:"keepalive"`
	DebugServices bool      `yaml:"debug_services"` // reflection and channelz beside xDS

	RESTListen string   `yaml:"rest_listen"` // host:port for clients that poll REST-JSON (VAR-5); empty: none
	RESTWait   Duration `yaml:"rest_wait"`   // how long a poll is held while nothing changes (REST-1)
}

// ServerTLS holds the files of the server's certificate.
type ServerTLS struct {
	CertFile     string `yaml:"cert_file"`
	KeyFile      string `yaml:"key_file"`
	ClientCAFile string `yaml:"client_ca_file,omitempty"` // set: clients must present a certificate (mTLS)
}

// Keepalive is HTTP/2's ping on a quiet connection, on either side.
type Keepalive struct {
	Time    Duration `yaml:"time"`    // quiet time before a ping; 0 sends none
	Timeout Duration `yaml:"timeout"` // the connection is given up if the answer takes longer
}

// Admin is the port for operators: metrics, health, state, profiles.
type Admin struct {
	Listen string `yaml:"listen"`
}

// Upstream is one control plane: servers, or files that stand for one.
type Upstream struct {
	Name        string       `yaml:"name"`                // in metrics, logs and the admin port; unique
	Default     bool         `yaml:"default"`             // takes opaque names, and authorities that nobody claims
	Authorities []string     `yaml:"authorities"`         // xdstp authorities that it serves, by name or as "*.example.com" (LOC-3)
	APIType     APIType      `yaml:"api_type,omitempty"`  // without meaning where there is a Path
	Endpoints   []string     `yaml:"endpoints,omitempty"` // host:port in order of priority (LOC-6); none with Path
	Path        string       `yaml:"path,omitempty"`      // a file or folder of DiscoveryResponses instead of servers (VAR-6)
	TLS         *UpstreamTLS `yaml:"tls,omitempty"`       // nil: plaintext
	TLSRefresh  Duration     `yaml:"tls_refresh"`

	// Metadata goes upstream with every stream and poll; Forward are the names of what is
	// passed on from clients, and is part of the scope (ACC-6).
	Metadata Headers  `yaml:"metadata,omitempty"`
	Forward  []string `yaml:"forward,omitempty"`

	MaxReceiveSize Size      `yaml:"max_receive_size"` // largest response, or file, taken
	MaxRequestSize Size      `yaml:"max_request_size"` // largest request sent (RES-14, RES-17)
	ConnectTimeout Duration  `yaml:"connect_timeout"`  // for one endpoint, before the next is tried
	Keepalive      Keepalive `yaml:"keepalive"`
	Backoff        Backoff   `yaml:"backoff"`
	Failback       Duration  `yaml:"failback"`      // how often a better endpoint is tried while a worse one serves (LOC-6)
	Batch          Duration  `yaml:"batch"`         // subscriptions that come within it go out in one request
	NackWait       Duration  `yaml:"nack_wait"`     // how long an ACK waits for clients, from when the first was sent the content (ACK-7); 0: not at all
	NackAcks       int       `yaml:"nack_acks"`     // clients whose acceptance ends that wait
	Settle         Duration  `yaml:"settle"`        // quiet time after which a collection is complete (RES-2)
	ResumeSettle   Duration  `yaml:"resume_settle"` // quiet time after which an unmentioned member is gone (RES-14)
	AbsentAfter    Duration  `yaml:"absent_after"`  // a name unanswered this long is not waited for any longer (RES-7)
	Poll           Poll      `yaml:"poll"`
	Redirects      Redirects `yaml:"redirects"` // what becomes of redirects that it answers with (LOC-1)
}

// Poll is how an upstream is asked that does not tell of changes by itself: a
// REST server (REST-3), and files beside being watched (FILE-1).
type Poll struct {
	Interval Duration `yaml:"interval"` // from the end of one poll to the next
	Timeout  Duration `yaml:"timeout"`  // of one REST poll, which the server may hold
}

// UpstreamTLS holds the files for the connections to an upstream; the zero
// value is TLS with the system's roots and without a client certificate.
type UpstreamTLS struct {
	CAFile     string `yaml:"ca_file,omitempty"`     // empty: the system's roots
	CertFile   string `yaml:"cert_file,omitempty"`   // the relay's own certificate, with KeyFile
	KeyFile    string `yaml:"key_file,omitempty"`    //
	ServerName string `yaml:"server_name,omitempty"` // expected in the server's certificate; empty: the endpoint's host
}

// Backoff is the exponential wait between attempts to reach an upstream
// (OPS-2). The jitter is not a setting: without it relays would move in step.
type Backoff struct {
	Base Duration `yaml:"base"` // after the first failure
	Max  Duration `yaml:"max"`  // never longer than this
}

// Node is how the relay presents itself upstream where it speaks for itself and
// not for a client (STR-2). See [Config.NodeProto].
type Node struct {
	ID       string   `yaml:"id"`
	Cluster  string   `yaml:"cluster"`
	Locality Locality `yaml:"locality,omitempty"`
	Metadata Metadata `yaml:"metadata,omitempty"`
}

// Locality is where the relay runs.
type Locality struct {
	Region  string `yaml:"region,omitempty"`
	Zone    string `yaml:"zone,omitempty"`
	SubZone string `yaml:"sub_zone,omitempty"`
}

// Metadata is a free map with keys of any case. Its values are those of a
// google.protobuf.Struct: nil, bool, float64, string, []any and map[string]any.
type Metadata map[string]any

// Aggregation says which clients share what opaque names resolve to (AGG-1, AGG-2).
type Aggregation struct {
	Rules     []Rule   `yaml:"rules"`     // the first that matches decides
	Otherwise Policy   `yaml:"otherwise"` // for clients that no rule matches
	Linger    Duration `yaml:"linger"`    // a scope without clients closes after it (AGG-3)

	// Tests are what the rules are expected to come to. Nothing but [Config.TestRules]
	// looks at them.
	Tests []RuleTest `yaml:"tests"`
}

// Rule is an aggregation rule: see [rules.Rule], whose fields these are. Match, Scope
// and the leaves of Node are CEL expressions.
type Rule struct {
	Name     string   `yaml:"name"`
	Match    string   `yaml:"match"`
	Scope    []string `yaml:"scope"` // empty: all that match share one scope; nil is not valid
	Upstream string   `yaml:"upstream,omitempty"`
	Node     RuleNode `yaml:"node,omitempty"`
}

// RuleNode is what the control plane sees of the clients of a rule (AGG-3): what is not
// given stays as the relay's own node and the rule's scope have it.
type RuleNode struct {
	First    bool        `yaml:"-"` // "first" in place of the section: the node of the scope's first client
	ID       string      `yaml:"id,omitempty"`
	Cluster  string      `yaml:"cluster,omitempty"`
	Locality Locality    `yaml:"locality,omitempty"`
	Metadata Expressions `yaml:"metadata,omitempty"`
}

// Expressions is a free map of CEL expressions, with keys of any case. Unlike nil, the
// empty one stands for metadata without a field.
type Expressions map[string]string

// IsZero keeps the empty map in the YAML form.
func (e Expressions) IsZero() bool { return e == nil }

// Cache bounds what is kept that no client watches now (SUB-11). What is
// watched is never evicted.
type Cache struct {
	MaxResources int      `yaml:"max_resources"`
	MaxBytes     Size     `yaml:"max_bytes"`
	Idle         Duration `yaml:"idle"`
}

// Resolve is what the relay does about names that lead to other names: members of
// list collections, redirects, alternatives.
type Resolve struct {
	Prefetch         bool     `yaml:"prefetch"`          // fetch them before a client asks (LIST-2, LOC-1)
	AlternativeAfter Duration `yaml:"alternative_after"` // an upstream unreachable this long gives way to `#alt=` (LOC-5)
	MaxRedirects     int      `yaml:"max_redirects"`     // followed one after the other (LOC-1)
}

// Log is what goes to standard error.
type Log struct {
	Level  LogLevel  `yaml:"level"`
	Format LogFormat `yaml:"format"`
}
