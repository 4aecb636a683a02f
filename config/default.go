package config

import "time"

// defaultMessageSize is what a message may hold so that a peer with gRPC's
// default limit of 4 MiB takes it. The 64 KiB below the limit are for what is
// known only when a message is finished: nonce, type URL and framing.
const defaultMessageSize = 4*MiB - 64*KiB

// Default gives the configuration that an empty file stands for. It has no
// upstream and is therefore not valid yet.
func Default() *Config {
	return &Config{
		// Both ports are on the loopback interface: without TLS nothing else may
		// reach them unless somebody says so.
		Server: Server{
			Listen:           "127.0.0.1:18100",
			SocketMode:       defaultSocketMode,
			TLSRefresh:       Duration(time.Minute),
			Identity:         defaultIdentity(),
			MaxMessageSize:   defaultMessageSize,
			MaxReceiveSize:   16 * MiB,
			AckWait:          Duration(200 * time.Millisecond),
			RemovalWait:      Duration(200 * time.Millisecond),
			WarmWait:         Duration(500 * time.Millisecond),
			ListHold:         Duration(5 * time.Minute),
			UnreachableAfter: Duration(5 * time.Second),
			Drain:            Duration(20 * time.Second),
			MaxConnectionAge: Duration(30 * time.Minute),
			Keepalive:        Keepalive{Time: Duration(time.Minute), Timeout: Duration(20 * time.Second)},
			RESTWait:         Duration(800 * time.Millisecond),
		},
		Admin:       Admin{Listen: "127.0.0.1:19100", SocketMode: 0o600},
		Peers:       Peers{MaxBytes: GiB},
		Node:        Node{ID: "xdsrelay", Cluster: "xdsrelay"},
		Aggregation: Aggregation{Otherwise: Isolate, Linger: Duration(5 * time.Minute)},
		Access:      Access{Otherwise: Allow},
		Types:       Types{Secret: []string{"sds"}},
		Ready:       Ready{Unserved: UnservedOn},
		Limits:      defaultLimits(),
		Cache: Cache{
			MaxResources: 1_000_000,
			MaxBytes:     2 * GiB,
			Idle:         Duration(10 * time.Minute),

			Generations:   10,
			SnapshotEvery: Duration(30 * time.Second),
		},
		Resolve: Resolve{Prefetch: true, AlternativeAfter: Duration(10 * time.Second)},
		Log:     Log{Level: LevelInfo, Format: FormatText, PerMinute: 60},
		Audit:   Audit{Level: AuditDenied},

		FullStateTypes: []string{"lds", "cds", "srds"},
	}
}

// defaultSocketMode lets a user and a group in.
const defaultSocketMode = FileMode(0o660)

func defaultIdentity() Identity { return Identity{Recheck: Duration(5 * time.Minute)} }

// DefaultListener gives a listener with every default and without name and address.
func DefaultListener() Listener {
	return Listener{Protocol: ProtocolGRPC, SocketMode: defaultSocketMode, Identity: defaultIdentity()}
}

// DefaultListenerAccess gives the access section of a listener with every default, without rules.
func DefaultListenerAccess() ListenerAccess { return ListenerAccess{Otherwise: Allow} }

// setDefaults is what the decoder begins the section with.
func (a *ListenerAccess) setDefaults() { *a = DefaultListenerAccess() }

// setDefaults is what the decoder begins an element of server.listeners with.
func (l *Listener) setDefaults() { *l = DefaultListener() }

// DefaultUpstream gives an upstream with every default and without name,
// endpoints or path, and a share of the names, which have none.
func DefaultUpstream() Upstream {
	return Upstream{
		Required:        true,
		APIType:         AggregatedDeltaGRPC,
		TLSRefresh:      Duration(time.Minute),
		MaxReceiveSize:  64 * MiB,
		MaxRequestSize:  defaultMessageSize,
		ConnectTimeout:  Duration(5 * time.Second),
		Keepalive:       Keepalive{Time: Duration(10 * time.Second), Timeout: Duration(10 * time.Second)},
		ResponseTimeout: Duration(8 * time.Second),
		CheckLists:      true,
		Wildcard:        AutoWildcard,
		Backoff:         Backoff{Base: Duration(500 * time.Millisecond), Max: Duration(5 * time.Second)},
		Failback:        Duration(30 * time.Second),
		Batch:           Duration(5 * time.Millisecond),
		NackWait:        AutoNackWait,
		NackShare:       10,
		Settle:          Duration(time.Second),
		ResumeSettle:    Duration(15 * time.Second),
		AbsentAfter:     Duration(15 * time.Second),
		// A server that holds a poll until something changes holds it for less than
		// the minute after which intermediaries give a quiet connection up.
		Poll: Poll{Interval: Duration(10 * time.Second), Timeout: Duration(time.Minute)},

		LoadReports: AggregateLoadReports,

		Guard: Guard{
			Removed: 50, AtLeast: 20, Hold: Duration(5 * time.Minute), SmallHold: Duration(time.Minute), WentBack: ReportBack,
			// Workloads come and go in numbers: ztunnel has one for each pod.
			Except: []string{"type.googleapis.com/istio.workload.Address", "type.googleapis.com/istio.workload.Workload"},
		},
	}
}

// setDefaults is what the decoder begins an element of upstreams with.
func (u *Upstream) setDefaults() { *u = DefaultUpstream() }
