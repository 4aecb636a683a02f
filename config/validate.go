package config

import (
	"encoding"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/structpb"
)

// Bounds of settings. They keep out what cannot be meant, not what is unwise.
const (
	minMessage = 64 * KiB // below it messages would hold a resource or two
	maxMessage = 1 * GiB  // gRPC's own limit is a little under 2 GiB

	maxWait = Duration(24 * time.Hour)
)

// Validate checks every value and how they fit together. The error is an
// [errors.Join] of [*Error]; each knows file and line if the configuration was
// loaded.
func (c *Config) Validate() error { return join(c.check().errs) }

// check looks at everything there is.
func (c *Config) check() *checker {
	k := &checker{from: c.from}
	k.enums(c)
	k.server(&c.Server)
	k.address("admin.listen", c.Admin.Listen, listening)
	if c.Admin.ProbesListen != "" {
		k.address("admin.probes_listen", c.Admin.ProbesListen, listening)
	}
	k.hosts("admin.hosts", c.Admin.Hosts)
	k.serverTLS("admin.tls", c.Admin.TLS)
	k.listeners(c)
	k.typeList("full_state_types", c.FullStateTypes)
	k.upstreams(c.Upstreams, c.Aggregation.Rules)
	k.peers(c)
	k.node(&c.Node)
	k.between("aggregation.linger", c.Aggregation.Linger, Duration(time.Second), maxWait)
	k.rules(c)
	k.tests(c, "aggregation.tests", c.Aggregation.Tests)
	k.access(c)
	k.passthrough(c)
	k.cache(&c.Cache)
	k.resolve(&c.Resolve)
	k.limits(&c.Limits, c.Server.MaxReceiveSize)
	k.atLeast("log.per_minute", c.Log.PerMinute, 0, " (no limit)")
	return k
}

// checker gathers what is wrong. Each method checks one section, given with its path.
type checker struct {
	from origins
	errs []*Error

	compiled compiled // by rules and access
}

func (k *checker) fail(path, format string, args ...any) {
	k.errs = append(k.errs, k.from.errorAt(path, format, args...))
}

// enums checks the values that are one of a few: a configuration that was built
// by hand may hold others, also the empty one.
func (k *checker) enums(c *Config) {
	for _, l := range leaves(reflect.ValueOf(c), reflect.TypeFor[*Config](), "") {
		k.enum(l.path, l.value)
	}
	for i := range c.Upstreams {
		if u := &c.Upstreams[i]; u.Path == "" {
			k.enum(fmt.Sprintf("upstreams[%d].api_type", i), reflect.ValueOf(&u.APIType).Elem())
		}
	}
}

func (k *checker) enum(path string, v reflect.Value) {
	if !v.IsValid() || v.Kind() != reflect.String {
		return
	}
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](reflect.New(v.Type())); ok {
		if err := u.UnmarshalText([]byte(v.String())); err != nil {
			k.fail(path, "%v", err)
		}
	}
}

func (k *checker) server(s *Server) {
	k.address("server.listen", s.Listen, listening)
	if s.RESTListen != "" {
		k.address("server.rest_listen", s.RESTListen, listening)
	}
	k.between("server.rest_wait", s.RESTWait, 0, Duration(10*time.Minute))
	k.serverTLS("server.tls", s.TLS)
	k.between("server.tls_refresh", s.TLSRefresh, Duration(time.Second), maxWait)
	k.identity("server.identity", &s.Identity)
	k.proxyProtocol("server.proxy_protocol", s.ProxyProtocol, s.Listen, s.RESTListen)
	k.message("server.max_message_size", s.MaxMessageSize)
	k.message("server.max_receive_size", s.MaxReceiveSize)
	k.between("server.ack_wait", s.AckWait, Duration(10*time.Millisecond), Duration(time.Minute))
	k.between("server.removal_wait", s.RemovalWait, 0, Duration(time.Minute))
	k.between("server.warm_wait", s.WarmWait, 0, Duration(time.Minute))
	k.between("server.list_hold", s.ListHold, 0, maxWait)
	if s.UnreachableAfter != 0 {
		k.between("server.unreachable_after", s.UnreachableAfter, Duration(time.Second), maxWait)
	}
	k.between("server.drain", s.Drain, 0, maxWait)
	if s.MaxConnectionAge != 0 {
		k.between("server.max_connection_age", s.MaxConnectionAge, Duration(time.Minute), 365*maxWait)
	}
	k.keepalive("server.keepalive", s.Keepalive)
}

func (k *checker) keepalive(path string, s Keepalive) {
	// gRPC raises a shorter time of a client to ten seconds without a word.
	if least := Duration(10 * time.Second); s.Time != 0 && (s.Time < least || s.Time > maxWait) {
		k.fail(path+".time", "expected 0 for none, or %s to %s, got %s", least, maxWait, s.Time)
	}
	k.between(path+".timeout", s.Timeout, Duration(time.Second), maxWait)
}

func (k *checker) node(n *Node) {
	// Control planes key their state by the id and refuse or mix up empty ones.
	k.required("node.id", n.ID)
	k.utf8("node.id", n.ID)
	k.utf8("node.cluster", n.Cluster)
	k.utf8("node.locality.region", n.Locality.Region)
	k.utf8("node.locality.zone", n.Locality.Zone)
	k.utf8("node.locality.sub_zone", n.Locality.SubZone)
	if _, err := structpb.NewStruct(n.Metadata); err != nil {
		k.fail("node.metadata", "expected values of a google.protobuf.Struct: %v", err)
	}
}

// utf8 checks a string that goes into a protobuf message. A file is UTF-8
// anyway, the environment and the command line need not be.
func (k *checker) utf8(path, value string) {
	if !utf8.ValidString(value) {
		k.fail(path, "expected UTF-8, got %q", value)
	}
}

func (k *checker) cache(s *Cache) {
	if s.MaxResources < 1 {
		k.fail("cache.max_resources", "expected 1 or more, got %d", s.MaxResources)
	}
	if s.MaxBytes < MiB {
		k.fail("cache.max_bytes", "expected %s or more, got %s", MiB, s.MaxBytes)
	}
	k.between("cache.idle", s.Idle, Duration(time.Second), 365*maxWait)
	if s.Generations < 0 || s.Generations > maxGenerations {
		k.fail("cache.generations", "expected 0 to %d, got %d", maxGenerations, s.Generations)
	}
	k.between("cache.snapshot_every", s.SnapshotEvery, Duration(time.Second), Duration(time.Hour))
}

// maxGenerations bounds cache.generations.
const maxGenerations = 1000

func (k *checker) resolve(s *Resolve) {
	k.between("resolve.alternative_after", s.AlternativeAfter, 0, maxWait)
}

func (k *checker) required(path, value string) {
	if value == "" {
		k.fail(path, "missing or empty")
	}
}

func (k *checker) between(path string, d, least, most Duration) {
	if d < least || d > most {
		k.fail(path, "expected %s to %s, got %s", least, most, d)
	}
}

func (k *checker) message(path string, s Size) {
	if s < minMessage || s > maxMessage {
		k.fail(path, "expected %s to %s, got %s", minMessage, maxMessage, s)
	}
}
