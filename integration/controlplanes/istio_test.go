package controlplanes

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"google.golang.org/protobuf/types/known/structpb"
)

// istioPlane is Istio's discovery server.
type istioPlane struct {
	*spoken

	at string
}

func istio() *subject {
	return &subject{
		name: "Istio", recipe: "istio.yaml", variant: delta(), start: startIstio, isolated: true,
		// The ports of its listeners are the same for all sidecars.
		backends: []string{"127.0.0.1:23001", "127.0.0.1:23002"},
		node:     sidecar,
		bootstrap: func(_ controlPlane, number int, b *bootstrapv3.Bootstrap) {
			// The agent's token. This Istio looks at none.
			b.GetDynamicResources().GetAdsConfig().GetGrpcServices()[0].InitialMetadata = []*corev3.HeaderValue{
				{Key: "authorization", Value: fmt.Sprintf("Bearer token-%d", number)}, {Key: "clusterid", Value: "Kubernetes"},
			}
		},
		relay: func(_ controlPlane, c *config.Config) {
			c.Server.TLS, c.Upstreams[0].TLS = nil, nil // the certificates come from the mesh
		},
	}
}

// sidecar is the node of a pod of one workload.
func sidecar(number int) *corev3.Node {
	ip := fmt.Sprintf("10.1.1.%d", number+1)
	metadata, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": "shop", "SERVICE_ACCOUNT": "web", "ISTIO_VERSION": "1.27.0", "INSTANCE_IPS": ip, "CLUSTER_ID": "Kubernetes",
		"LABELS": map[string]any{"app": "web"},
	})
	if err != nil {
		panic(err) // a mistake of the test
	}
	return &corev3.Node{
		Id: fmt.Sprintf("sidecar~%s~web-%d.shop~shop.svc.cluster.local", ip, number), Cluster: "web.shop", Metadata: metadata,
	}
}

func startIstio(t *testing.T) controlPlane {
	t.Helper()
	port := strconv.Itoa(ports.Free(t))
	// Envoys that are not Istio's have none of these extensions.
	env := []string{"PILOT_ENABLE_METADATA_EXCHANGE=false", "PILOT_ENABLE_ALPN_FILTER=false", "HOME=" + t.TempDir()}
	return &istioPlane{
		spoken: startSpoken(t, env, "../testdata/istio/target/server", port), at: net.JoinHostPort("127.0.0.1", port),
	}
}

func (p *istioPlane) addr() string    { return p.at }
func (p *istioPlane) version() string { return p.spoken.version }

func (p *istioPlane) lead(t *testing.T, backend string) {
	t.Helper()
	host, port, err := net.SplitHostPort(backend)
	if err != nil {
		t.Fatal(err)
	}
	p.tell(t, map[string]string{"config": fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shop, namespace: shop}
spec:
  hosts: [shop.example.com]
  ports: [{number: 8888, name: http, protocol: HTTP}]
  resolution: STATIC
  location: MESH_INTERNAL
  endpoints: [{address: %s, ports: {http: %s}}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: DISABLE}}
`, host, port)})
}
