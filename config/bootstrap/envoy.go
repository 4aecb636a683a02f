package bootstrap

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Envoy gives the bootstrap of an Envoy, in YAML with comments. An Envoy has no cluster with both DNS names and unix
// sockets.
func (b *Bootstrap) Envoy() (string, error) {
	sockets, names := b.addresses()
	if sockets && names {
		return "", fmt.Errorf("an Envoy takes no DNS name beside a unix socket in one cluster: %w", ErrRelays)
	}
	kind := "STATIC"
	if names {
		kind = "STRICT_DNS"
	}
	w := new(yamlWriter)
	w.line(0, "# Made by \"xdsrelay bootstrap envoy\". Envoy 1.40.")
	w.line(0, "node: {id: %s, cluster: %s}", quote(b.id), quote(b.cluster))
	w.line(0, "admin: {address: {socket_address: {address: %s, port_value: %s}}}", host(b.admin), port(b.admin))
	w.line(0, "dynamic_resources:")
	if b.perType {
		for _, key := range []string{"lds_config", "cds_config"} {
			w.line(1, "%s:", key)
			w.line(2, "resource_api_version: V3")
			w.line(2, "initial_fetch_timeout: 0s # it waits for configuration, and does not start without")
			w.line(2, "api_config_source:")
			b.api(w, 3)
		}
	} else {
		w.line(1, "ads_config:")
		b.api(w, 2)
		w.line(1, "# Envoy starts without listeners if nobody answers for this time. 0s: it waits.")
		w.line(1, "lds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}")
		w.line(1, "cds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}")
	}
	w.line(0, "static_resources:")
	w.line(1, "clusters:")
	w.line(1, "- name: %s", Cluster)
	w.line(2, "type: %s", kind)
	b.servers(w)
	return w.text.String(), nil
}

// Cluster is the name of the cluster with the xDS servers. Resources of control planes without ADS name it.
const Cluster = "xdsrelay"

func (b *Bootstrap) api(w *yamlWriter, depth int) {
	form := "GRPC"
	if b.delta {
		form = "DELTA_GRPC"
	}
	w.line(depth, "api_type: %s", form)
	w.line(depth, "transport_api_version: V3")
	w.line(depth, "set_node_on_first_message_only: true # otherwise each ACK repeats the node, up to 60 KiB")
	w.line(depth, "grpc_services:")
	w.line(depth, "- envoy_grpc:")
	w.line(depth+2, "cluster_name: %s", Cluster)
	w.line(depth+2, "retry_policy: {retry_back_off: {base_interval: 0.5s, max_interval: 3s}}")
}

// servers writes the cluster. Its priorities are the relays, and the control plane.
func (b *Bootstrap) servers(w *yamlWriter) {
	w.line(2, "connect_timeout: 1s")
	w.line(2, "lb_policy: RANDOM # with ROUND_ROBIN, all Envoys of a relay that ends go to the same other one")
	w.line(2, "# A server is left out for ten seconds if a connection to it failed, or if it refused two streams in a row.")
	if len(b.plane.addresses) > 0 {
		w.line(2, "# The control plane is asked while all relays are left out.")
	}
	w.line(2, "outlier_detection: {split_external_local_origin_errors: true, consecutive_local_origin_failure: 1,")
	w.line(2, "  consecutive_5xx: 2, consecutive_gateway_failure: 2, enforcing_consecutive_gateway_failure: 100,")
	w.line(2, "  interval: 1s, base_ejection_time: 10s, max_ejection_time: 10s, max_ejection_percent: 100}")
	w.line(2, "load_assignment:")
	w.line(3, "cluster_name: %s", Cluster)
	if len(b.plane.addresses) > 0 {
		w.line(3, "# One relay that is left is enough for all: without this factor a part goes to the control plane.")
		w.line(3, "policy: {overprovisioning_factor: 100000}")
	}
	w.line(3, "endpoints:")
	b.priority(w, 0, &b.relays)
	if len(b.plane.addresses) > 0 {
		b.priority(w, 1, &b.plane)
	}
	b.sockets(w)
	w.line(2, "typed_extension_protocol_options:")
	w.line(3, "envoy.extensions.upstreams.http.v3.HttpProtocolOptions:")
	w.line(4, "\"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions")
	if len(b.plane.addresses) > 0 {
		w.line(4, "# A stream begins anew after this time. So Envoys that are at the control plane return to the relays.")
		w.line(4, "common_http_protocol_options: {max_stream_duration: %s}", strconv.FormatFloat(b.back.Seconds(), 'f', -1, 64)+"s")
	}
	w.line(4, "explicit_http_config:")
	w.line(5, "http2_protocol_options:")
	w.line(6, "# An Envoy leaves a server that hangs, or that a network drops silently.")
	w.line(6, "connection_keepalive: {interval: 10s, timeout: 5s}")
}

// addresses says whether some of the servers are unix sockets, and whether some have a name to look up.
func (b *Bootstrap) addresses() (sockets, names bool) {
	for _, a := range slices.Concat(b.relays.addresses, b.plane.addresses) {
		if strings.HasPrefix(a, "unix:") {
			sockets = true
			continue
		}
		host, _, _ := net.SplitHostPort(a)
		_, err := netip.ParseAddr(host)
		names = names || err != nil
	}
	return sockets, names
}

func (b *Bootstrap) priority(w *yamlWriter, priority int, s *server) {
	w.line(3, "- priority: %d # %s", priority, [2]string{"the relays", "the control plane"}[priority])
	w.line(4, "lb_endpoints:")
	for _, a := range s.addresses {
		at := "{socket_address: {address: " + host(a) + ", port_value: " + port(a) + "}}"
		if path, is := strings.CutPrefix(a, "unix://"); is {
			at = "{pipe: {path: " + quote(path) + "}}"
		}
		w.line(4, "- endpoint: {address: %s}", at)
		if b.secure() {
			w.line(4, "  metadata: {filter_metadata: {envoy.transport_socket_match: {server: %s}}}", quote(a))
		}
	}
}

// secure reports whether some servers have TLS.
func (b *Bootstrap) secure() bool { return b.relays.tls != nil || b.plane.tls != nil }

// sockets writes the TLS of each server, by its address: each has the name of its own host.
func (b *Bootstrap) sockets(w *yamlWriter) {
	if !b.secure() {
		return
	}
	w.line(2, "transport_socket_matches:")
	for _, s := range []*server{&b.relays, &b.plane} {
		for _, a := range s.addresses {
			w.line(2, "- name: %s", quote(a))
			w.line(3, "match: {server: %s}", quote(a))
			if s.tls == nil {
				w.line(3, "transport_socket:")
				w.line(4, "name: envoy.transport_sockets.raw_buffer")
				w.line(4, "typed_config: {\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}")
				continue
			}
			s.tls.write(w, a)
		}
	}
}

func (f *files) write(w *yamlWriter, address string) {
	name := f.serverName(address)
	kind := "DNS"
	if _, err := netip.ParseAddr(name); err == nil {
		kind = "IP_ADDRESS"
	}
	w.line(3, "transport_socket:")
	w.line(4, "name: envoy.transport_sockets.tls")
	w.line(4, "typed_config:")
	w.line(5, "\"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext")
	if kind == "DNS" && name != "" {
		w.line(5, "sni: %s", quote(name))
	}
	w.line(5, "common_tls_context:")
	w.line(6, "alpn_protocols: [h2]")
	if f.cert != "" {
		w.line(6, "tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]", quote(f.cert), quote(f.key))
	}
	w.line(6, "validation_context:")
	if f.ca == "" {
		w.line(7, "system_root_certs: {}")
	} else {
		w.line(7, "trusted_ca: {filename: %s}", quote(f.ca))
	}
	if name != "" {
		w.line(7, "match_typed_subject_alt_names: [{san_type: %s, matcher: {exact: %s}}]", kind, quote(name))
	}
}

// yamlWriter writes lines.
type yamlWriter struct{ text strings.Builder }

func (w *yamlWriter) line(depth int, format string, args ...any) {
	fmt.Fprintf(&w.text, "%s"+format+"\n", append([]any{strings.Repeat("  ", depth)}, args...)...)
}

// quote gives a text as a string of YAML.
func quote(text string) string { return strconv.Quote(text) }

func host(address string) string {
	h, _, _ := net.SplitHostPort(address)
	return quote(h)
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}
