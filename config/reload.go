package config

import (
	"reflect"
	"slices"
	"strings"
)

// restartKeys are the keys that a running relay cannot change: what belongs to its
// sockets, and to all that is cached. A section stands for its keys; server.tls stands
// only for whether there is one. Of server.listeners, TLS files, identities and access rules can change.
func restartKeys() []string {
	return []string{
		"server.listen",
		"server.socket_mode",
		"server.proxy_protocol",
		"server.max_receive_size",
		"server.max_connection_age",
		"server.keepalive",
		"server.debug_services",
		"server.rest_listen",
		"server.listeners",
		"admin.listen",
		"admin.probes_listen",
		"admin.tls",
		"admin.tokens_file",
		"admin.socket_mode",
		"peers",
		"limits.streams_per_connection",
		"limits.memory",
		"cache.dir",
		"log.format",
		"audit.to",
		"full_state_types",
	}
}

// NeedsRestart reports whether a key, by its path, takes effect after a restart only.
func NeedsRestart(path string) bool {
	return path == tlsSection || slices.ContainsFunc(restartKeys(), func(key string) bool {
		return path == key || strings.HasPrefix(path, key+".") || strings.HasPrefix(path, key+"[") && !live(path)
	})
}

// live reports whether a key of a listener can change.
func live(path string) bool {
	return slices.ContainsFunc([]string{"].tls.", "].identity.", "].access"}, func(part string) bool { return strings.Contains(path, part) })
}

// tlsSection is a key like any other as far as its files go, but a port does not change
// between plaintext and TLS.
const tlsSection = "server.tls"

// Live is what comes into force when a relay that runs with one configuration is given
// another: the new one, but for the keys that need a restart, which keep their values.
// waiting lists those of which the new one says something else, and changed the others. While
// the TLS of a listener waits, or a listener, access waits too: its rules may be about
// certificates, or the listener.
func Live(running, wanted *Config) (inForce *Config, changed, waiting []Change) {
	next := *wanted
	keep(reflect.ValueOf(&next).Elem(), reflect.ValueOf(running).Elem(), "")
	judged := secureAlike(&running.Server, &wanted.Server)
	next.Server.Listeners = liveListeners(running.Server.Listeners, wanted.Server.Listeners, judged)
	if (running.Server.TLS == nil) != (wanted.Server.TLS == nil) {
		next.Server.TLS = running.Server.TLS
	}
	if !judged {
		next.Access = running.Access
	}
	return &next, Diff(running, &next), Diff(&next, wanted)
}

// keep gives the keys that need a restart their values from before.
func keep(to, from reflect.Value, path string) {
	for _, f := range fieldsOf(to.Type()) {
		at := child(path, f.key)
		switch member := to.Field(f.index); {
		case at == tlsSection:
		case NeedsRestart(at):
			member.Set(from.Field(f.index))
		case member.Kind() == reflect.Struct:
			keep(member, from.Field(f.index), at)
		}
	}
}
