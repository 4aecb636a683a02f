package wire

import "google.golang.org/protobuf/encoding/protowire"

// The fields of a Cluster that say which endpoints it needs. They have the same numbers in
// v2.
const (
	fieldClusterName    = 1
	fieldClusterType    = 2
	fieldClusterEDS     = 3
	fieldEDSServiceName = 2
	clusterTypeEDS      = 3
	clusterTypeURL      = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	clusterTypeURLv2    = "type.googleapis.com/envoy.api.v2.Cluster"
)

// ClusterEndpoints gives the name of the ClusterLoadAssignment that a cluster of type EDS
// needs: eds_cluster_config.service_name, else the cluster's own name (WARM-3). It is false
// for everything else. The name lies in the resource's bytes. Nothing but these fields is
// decoded.
func (r *Resource) ClusterEndpoints() (name string, ok bool) {
	if typeURL := r.TypeURL(); typeURL != clusterTypeURL && typeURL != clusterTypeURLv2 {
		return "", false
	}
	var value, own, service []byte
	for it := (fields{rest: r.Any()}); it.next(); {
		if it.is(fieldAnyValue, protowire.BytesType) {
			value = it.body
		}
	}
	eds := false
	it := fields{rest: value}
	for it.next() {
		switch {
		case it.is(fieldClusterName, protowire.BytesType):
			own = it.body
		case it.is(fieldClusterType, protowire.VarintType):
			eds = it.number == clusterTypeEDS
		case it.is(fieldClusterEDS, protowire.BytesType):
			config := fields{rest: it.body}
			for config.next() {
				if config.is(fieldEDSServiceName, protowire.BytesType) {
					service = config.body
				}
			}
			if config.err != nil {
				return "", false
			}
		}
	}
	switch {
	case it.err != nil || !eds:
		return "", false
	case len(service) > 0:
		return view(service), true
	}
	return view(own), true
}
