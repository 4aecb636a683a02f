// Package config is the relay's configuration: the types of the YAML file, their
// defaults, and a validation that reports mistakes by file, line and column.
//
// Four layers make a [Config]. Each one overrides the one before: [Default], the
// file, the environment ([EnvPrefix] and the key's path), the flags of [AddFlags].
// The file is read strictly. An unknown key, a key that is given twice and a value
// of the wrong kind are errors. The package reports all of them together.
//
// The package owns the contents of a configuration. It opens no listener, builds
// no TLS configuration and watches no file: cmd loads a Config and passes it to the
// other packages. There is only one reading of the file, so that two cannot differ:
// a single walk decodes and checks the YAML tree (decode.go). viper gets the typed
// results and lays the environment and the flags over them. So viper never sees the
// keys of a free map, which it would turn to lower case.
//
// A Config is not safe for concurrent change. This package never changes one.
package config

// EnvPrefix begins the name of every environment variable that sets a key. The
// key's path follows in upper case with "_" for ".": XDSRELAY_SERVER_LISTEN sets
// server.listen.
const EnvPrefix = "XDSRELAY_"

// Variables that commands read in place of a flag. They set no key.
const (
	ConfigVariable = EnvPrefix + "CONFIG"           // for --config
	AdminVariable  = EnvPrefix + "ADMIN"            // for --admin
	TokenVariable  = EnvPrefix + "ADMIN_TOKEN_FILE" // for --token-file
)

func commandVariables() []string { return []string{ConfigVariable, AdminVariable, TokenVariable} }

// Config is a whole configuration file. [Load] and [Parse] return valid ones. To
// build one by hand, begin with [Default] and end with [Config.Validate].
type Config struct {
	Server      Server      `yaml:"server"`
	Admin       Admin       `yaml:"admin"`
	Upstreams   []Upstream  `yaml:"upstreams"`
	Peers       Peers       `yaml:"peers,omitempty"`
	Node        Node        `yaml:"node"`
	Aggregation Aggregation `yaml:"aggregation"`
	Access      Access      `yaml:"access"`
	Types       Types       `yaml:"types"`
	Passthrough []PassRule  `yaml:"passthrough"`
	Ready       Ready       `yaml:"ready"`
	Limits      Limits      `yaml:"limits"`
	Cache       Cache       `yaml:"cache"`
	Resolve     Resolve     `yaml:"resolve"`
	Log         Log         `yaml:"log"`
	Audit       Audit       `yaml:"audit"`

	// FullStateTypes are the types with complete state-of-the-world responses, by
	// short name or type URL (RES-2). [Config.FullStateTypeURLs] gives the type URLs.
	FullStateTypes []string `yaml:"full_state_types"`

	// from has the place of each value, for the errors of Validate. Nil for a
	// configuration built by hand.
	from origins
	// file is the name of the loaded file, "" without a file.
	file string
	// scalars are the strings of the file, nil without a file.
	scalars *scalars
	// unread are the variables of the environment that set nothing, for the warnings.
	unread []*Error
	// compiled are the rules at the time of loading.
	compiled *compiled
}

// File is the name of the file that the configuration was loaded from, "" without a file.
func (c *Config) File() string { return c.file }

// Server is the side towards the clients.
type Server struct {
	Listen     string     `yaml:"listen"`        // host:port, an empty host means every address; or unix:///path
	SocketMode FileMode   `yaml:"socket_mode"`   // of the files of unix sockets
	TLS        *ServerTLS `yaml:"tls,omitempty"` // nil: plaintext
	TLSRefresh Duration   `yaml:"tls_refresh"`   // interval of looking for changed TLS files
	Identity   Identity   `yaml:"identity"`

	// ProxyProtocol says that each connection begins with a header of a proxy, with the client's
	// address.
	ProxyProtocol bool `yaml:"proxy_protocol"`

	MaxMessageSize   Size     `yaml:"max_message_size"`  // the relay splits responses below it (RES-9)
	MaxReceiveSize   Size     `yaml:"max_receive_size"`  // largest accepted request (OPS-5)
	AckWait          Duration `yaml:"ack_wait"`          // wait of a type's next response for the ACK of the last one (ADS-2)
	RemovalWait      Duration `yaml:"removal_wait"`      // wait of removals of what others refer to (ADS-4, ADS-5)
	WarmWait         Duration `yaml:"warm_wait"`         // wait of listeners and routes for endpoints of new clusters (WARM-4)
	ListHold         Duration `yaml:"list_hold"`         // wait of lists for names of unreachable upstreams (ABS-3)
	UnreachableAfter Duration `yaml:"unreachable_after"` // wait of clients for an unreachable upstream (ABS-2); 0: for ever
	Drain            Duration `yaml:"drain"`             // time over which a shutdown spreads its clients (OPS-4)

	// MaxConnectionAge is when connections of clients end, ± 10 % (SUR-4); 0: never.
	MaxConnectionAge Duration `yaml:"max_connection_age"`

	Keepalive     Keepalive `yaml:"keepalive"`
	DebugServices bool      `yaml:"debug_services"` // reflection and channelz beside xDS

	RESTListen string   `yaml:"rest_listen"` // as Listen, for clients that poll REST-JSON (VAR-5); empty: none
	RESTWait   Duration `yaml:"rest_wait"`   // longest time of a held poll without a change (REST-1)

	Listeners []Listener `yaml:"listeners"` // beside the one that Listen and RESTListen open
}

// ServerTLS holds the files of the server's certificate, or SPIFFE.
type ServerTLS struct {
	CertFile     string `yaml:"cert_file"`
	KeyFile      string `yaml:"key_file"`
	ClientCAFile string `yaml:"client_ca_file,omitempty"` // set: clients must present a certificate (mTLS)

	ClientCRLFile string `yaml:"client_crl_file,omitempty"` // revocation lists of these CAs

	SPIFFE *SPIFFE `yaml:"spiffe,omitempty"` // in place of files; clients must present a certificate
}

// SPIFFE has certificates come from a SPIFFE Workload API in place of files (ACC-1). The other end must
// have an X509-SVID of one of the trust domains.
type SPIFFE struct {
	Socket       string   `yaml:"socket,omitempty"`        // unix:///path; empty: SPIFFE_ENDPOINT_SOCKET
	TrustDomains []string `yaml:"trust_domains,omitempty"` // empty: that of the relay's own certificate
}

// ClientSPIFFE is SPIFFE for connections that the relay opens.
type ClientSPIFFE struct {
	Socket       string   `yaml:"socket,omitempty"`
	TrustDomains []string `yaml:"trust_domains,omitempty"`
	ServerIDs    []string `yaml:"server_ids,omitempty"` // SPIFFE IDs that the server may have; empty: any of TrustDomains
}

// Identity configures how long a client is who it was when it connected.
type Identity struct {
	Recheck Duration `yaml:"recheck"`       // time within which clients end whose certificate does not count any more (ACC-1)
	JWT     []Issuer `yaml:"jwt,omitempty"` // whose bearer tokens count; none: tokens are ignored
}

// Issuer is one whose bearer tokens, JSON Web Tokens, say who a client is (ACC-1).
type Issuer struct {
	Issuer     string   `yaml:"issuer"`       // the claim iss of its tokens
	Audiences  []string `yaml:"audiences"`    // a token needs one of them in aud
	JWKSFile   string   `yaml:"jwks_file"`    // its public keys, a JSON Web Key Set; or
	JWKSURL    string   `yaml:"jwks_url"`     // where they are
	JWKSCAFile string   `yaml:"jwks_ca_file"` // CAs of the URL's server; empty: the system's
	JWKSMaxAge Duration `yaml:"jwks_max_age"` // of keys that cannot be read again; 0: they count for ever
}

// Keepalive configures HTTP/2 pings on a quiet connection, on either side.
type Keepalive struct {
	Time    Duration `yaml:"time"`    // quiet time before a ping; 0 sends none
	Timeout Duration `yaml:"timeout"` // without an answer in this time the connection is closed
}

// Admin is the port for operators: metrics, health, state, profiles.
type Admin struct {
	Listen string   `yaml:"listen"`          // host:port, or unix:///path
	Hosts  []string `yaml:"hosts,omitempty"` // names by which it is asked, beside its own (ACC-7)

	ProbesListen string `yaml:"probes_listen,omitempty"` // as Listen, for probes alone; empty: none

	SocketMode FileMode `yaml:"socket_mode"` // of the file of a unix socket

	TLS        *ServerTLS `yaml:"tls,omitempty"`         // nil: plaintext
	TokensFile string     `yaml:"tokens_file,omitempty"` // of operators that may ask; empty: everybody who reaches it
}

// Ready configures when the relay is ready for clients (SUR-5).
type Ready struct {
	Unserved Unserved `yaml:"unserved"` // whether streams that end unserved take it back
}

// Upstream is one control plane: servers, or files in their place.
type Upstream struct {
	Name        string       `yaml:"name"`                // in metrics, logs and the admin port; unique
	Default     bool         `yaml:"default"`             // serves opaque names, and authorities that no upstream claims
	Required    bool         `yaml:"required"`            // the relay is not ready before it was reached (SUR-5)
	Authorities []string     `yaml:"authorities"`         // its xdstp authorities, by name or as "*.example.com" (LOC-3)
	APIType     APIType      `yaml:"api_type,omitempty"`  // no meaning with Path
	Endpoints   Endpoints    `yaml:"endpoints,omitempty"` // none with Path
	Path        string       `yaml:"path,omitempty"`      // a file or folder of DiscoveryResponses instead of servers (VAR-6)
	TLS         *UpstreamTLS `yaml:"tls,omitempty"`       // nil: plaintext
	TLSRefresh  Duration     `yaml:"tls_refresh"`

	Credentials Credentials `yaml:"credentials,omitempty"`

	// The relay sends Metadata with every stream and poll. Forward has the names of
	// clients' metadata that the relay passes on; it is part of the scope (ACC-6).
	Metadata Headers  `yaml:"metadata,omitempty"`
	Forward  []string `yaml:"forward,omitempty"`

	MaxReceiveSize Size      `yaml:"max_receive_size"` // largest accepted response or file
	MaxRequestSize Size      `yaml:"max_request_size"` // largest request sent (RES-14, RES-17)
	ConnectTimeout Duration  `yaml:"connect_timeout"`  // for one endpoint, before the next is tried
	Keepalive      Keepalive `yaml:"keepalive"`
	// A server answers a request that it must answer within ResponseTimeout, or counts as
	// silent (SUR-2); 0: silence never counts.
	ResponseTimeout Duration `yaml:"response_timeout"`
	// The relay asks a server of the state of the world, on a stream of its own, for what it may have left out of
	// its answers.
	CheckLists   bool     `yaml:"check_lists"`
	Wildcard     Wildcard `yaml:"wildcard"`
	Backoff      Backoff  `yaml:"backoff"`
	Failback     Duration `yaml:"failback"`      // interval of trying a better endpoint while a worse one serves (LOC-6)
	Batch        Duration `yaml:"batch"`         // the relay sends subscriptions of this time in one request
	NackWait     NackWait `yaml:"nack_wait"`     // wait of an ACK for clients, from the first client's response on (ACK-7); 0: no wait
	NackShare    Percent  `yaml:"nack_share"`    // the control plane gets a NACK if this part of the clients rejects, at least one
	Settle       Duration `yaml:"settle"`        // quiet time after which a collection is complete (RES-2)
	ResumeSettle Duration `yaml:"resume_settle"` // quiet time after which an unmentioned member is removed (RES-14)
	AbsentAfter  Duration `yaml:"absent_after"`  // longest wait for an unanswered name (RES-7)
	Poll         Poll     `yaml:"poll"`

	LoadReports LoadReports `yaml:"load_reports"` // handling of clients' load reports (LRS-1)

	Guard Guard `yaml:"guard"` // the loss of many resources at once is held (SUR-3)
}

// Guard says which losses of resources the relay holds back from clients, and for how long (SUR-3).
type Guard struct {
	Removed      Percent  `yaml:"removed"`       // of the resources of a type, or of a glob; 0: the guard is off
	AtLeast      int      `yaml:"at_least"`      // fewer pass
	Hold         Duration `yaml:"hold"`          // clients are told after this time
	SmallHold    Duration `yaml:"small_hold"`    // and after this one of the loss of all Listeners and Clusters, if they are few; 0: at once
	WentBack     WentBack `yaml:"went_back"`     // content that goes back to what it was before (SUR-7)
	Except       []string `yaml:"except"`        // types whose losses pass, beside secrets
	BehindRelays bool     `yaml:"behind_relays"` // guards also where the upstream is a relay, which has a guard of its own
}

// Poll configures the polls of a REST server (REST-3), and of files in addition to
// the watch of the file system (FILE-1).
type Poll struct {
	Interval Duration `yaml:"interval"` // from the end of one poll to the next
	Timeout  Duration `yaml:"timeout"`  // of one REST poll; the server may hold it
}

// UpstreamTLS has the files for the connections to an upstream, or SPIFFE. The zero value is
// TLS with the system's CAs and without a client certificate.
type UpstreamTLS struct {
	CAFile     string `yaml:"ca_file,omitempty"`     // empty: the system's CAs
	CertFile   string `yaml:"cert_file,omitempty"`   // the relay's own certificate, with KeyFile
	KeyFile    string `yaml:"key_file,omitempty"`    //
	ServerName string `yaml:"server_name,omitempty"` // expected in the server's certificate; empty: the endpoint's host

	SPIFFE *ClientSPIFFE `yaml:"spiffe,omitempty"` // in place of files and name
}

// Credentials is what the relay shows an upstream beside its client certificate (ACC-6).
type Credentials struct {
	TokenFile string `yaml:"token_file,omitempty"` // a bearer token, which is read again when it changes; empty: none

	SPIFFE *TokenSPIFFE `yaml:"spiffe,omitempty"` // in place of the file
}

// given reports whether there is a bearer token.
func (c *Credentials) given() bool { return *c != Credentials{} }

// TokenSPIFFE has a bearer token, a JWT-SVID, come from a SPIFFE Workload API (ACC-6).
type TokenSPIFFE struct {
	Socket    string   `yaml:"socket,omitempty"` // unix:///path; empty: SPIFFE_ENDPOINT_SOCKET
	Audiences []string `yaml:"audiences"`        // for whom the token is: what the control plane expects in aud
}

// Backoff is the exponential wait between attempts to reach an upstream
// (OPS-2). Jitter is always on: without it relays would act in step.
type Backoff struct {
	Base Duration `yaml:"base"` // after the first failure
	Max  Duration `yaml:"max"`  // longest wait
}

// Node is the relay's own node. Control planes see it for requests of the relay
// that do not present a client's node (STR-2). See [Config.NodeProto].
type Node struct {
	ID       string   `yaml:"id"`
	Cluster  string   `yaml:"cluster"`
	Locality Locality `yaml:"locality,omitempty"`
	Metadata Metadata `yaml:"metadata,omitempty"`
}

// Locality is the location of the relay.
type Locality struct {
	Region  string `yaml:"region,omitempty"`
	Zone    string `yaml:"zone,omitempty"`
	SubZone string `yaml:"sub_zone,omitempty"`
}

// Metadata is a free map with keys of any case. Its values are those of a
// google.protobuf.Struct: nil, bool, float64, string, []any and map[string]any.
type Metadata map[string]any

// Aggregation decides which clients share opaque names (AGG-1, AGG-2).
type Aggregation struct {
	Rules     []Rule   `yaml:"rules"`     // the first matching rule decides
	Otherwise Policy   `yaml:"otherwise"` // for clients that no rule matches
	Linger    Duration `yaml:"linger"`    // a scope without clients closes after this time (AGG-3)

	// Tests are the expected results of the rules. Only [Config.TestRules] runs them.
	Tests []RuleTest `yaml:"tests"`
}

// Rule is an aggregation rule, with the fields of [rules.Rule]. Match, Scope and the
// leaves of Node are CEL expressions.
type Rule struct {
	Name     string   `yaml:"name"`
	Match    string   `yaml:"match"`
	Scope    []string `yaml:"scope"` // empty: all matching clients share one scope; nil is not valid
	Upstream string   `yaml:"upstream,omitempty"`
	Node     RuleNode `yaml:"node,omitempty"`
}

// RuleNode is the node that the control plane sees for a rule (AGG-3). Fields that are
// not given are those of the relay's own node and of the rule's scope.
type RuleNode struct {
	First    bool        `yaml:"-"` // "first" in place of the section: the node of the scope's first client
	ID       string      `yaml:"id,omitempty"`
	Cluster  string      `yaml:"cluster,omitempty"`
	Locality Locality    `yaml:"locality,omitempty"`
	Metadata Expressions `yaml:"metadata,omitempty"`
}

// Expressions is a free map of CEL expressions, with keys of any case. The empty map is
// metadata without a field; nil sets no metadata.
type Expressions map[string]string

// IsZero keeps the empty map in the YAML form.
func (e Expressions) IsZero() bool { return e == nil }

// Cache limits resources without a subscribed client (SUB-11). The relay never evicts
// a resource that a client subscribes to.
type Cache struct {
	MaxResources int      `yaml:"max_resources"`
	MaxBytes     Size     `yaml:"max_bytes"`
	Idle         Duration `yaml:"idle"`
	Generations  int      `yaml:"generations"` // states that each scope remembers (GATE-4)

	Dir           string   `yaml:"dir"`            // of snapshots for the next start; "": none (SUR-1)
	SnapshotEvery Duration `yaml:"snapshot_every"` // while something changes
}

// Resolve configures names that lead to other names: members of list collections and
// alternatives.
type Resolve struct {
	Prefetch         bool     `yaml:"prefetch"`          // fetch members before a client asks (LIST-2)
	AlternativeAfter Duration `yaml:"alternative_after"` // after this time without its upstream a name is served from `#alt=` (LOC-5)
}

// Log configures the log on standard error.
type Log struct {
	Level  LogLevel  `yaml:"level"`
	Format LogFormat `yaml:"format"`

	PerMinute int `yaml:"per_minute"` // lines of one message; 0: no limit
}
