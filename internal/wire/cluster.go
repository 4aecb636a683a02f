package wire

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// The fields of a Cluster that say which endpoints it needs. They have the same numbers in
// v2.
const (
	fieldClusterName    = 1
	fieldClusterType    = 2
	fieldClusterEDS     = 3
	fieldEDSServiceName = 2
	clusterTypeEDS      = 3
)

// edsName says where the name of a cluster's endpoints stands. It is found once, when the
// resource arrives: the relay asks for the name with each delivery.
type edsName uint8

const (
	edsNone  edsName = iota // the resource is no cluster of type EDS
	edsOwn                  // the name is the resource's
	edsOther                // the name stands in the payload alone
)

// ClusterEndpoints gives the name of the ClusterLoadAssignment that a cluster of type EDS
// needs: eds_cluster_config.service_name, else the cluster's own name (WARM-3). It is false
// for everything else. The name lies in the resource's bytes.
func (r *Resource) ClusterEndpoints() (name string, ok bool) {
	switch r.endpoints {
	case edsNone:
		return "", false
	case edsOwn:
		return r.Name, true
	case edsOther:
	}
	return r.clusterEndpoints()
}

// edsName finds where the name stands.
func (r *Resource) edsName() edsName {
	switch name, ok := r.clusterEndpoints(); {
	case !ok:
		return edsNone
	case name == r.Name:
		return edsOwn
	}
	return edsOther
}

// clusterEndpoints is ClusterEndpoints from the payload. Nothing but the fields that it
// needs is decoded.
func (r *Resource) clusterEndpoints() (name string, ok bool) {
	if known := xds.Find(r.TypeURL()); known == nil || known.URL != xds.ClusterType {
		return "", false
	}
	var own, service []byte
	eds := false
	it := fields{rest: r.value()}
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
