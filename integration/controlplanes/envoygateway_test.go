package controlplanes

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
)

const (
	envoyGatewayProgram = "../testdata/envoygateway/target/envoy-gateway"
	// Its ports cannot be chosen.
	envoyGatewayAddr = "127.0.0.1:18000"
	// envoyGatewayEnvoy is the version of Envoy that it is told to run.
	envoyGatewayEnvoy = "1.39.1"
)

// envoyGatewayPlane is Envoy Gateway without Kubernetes: it reads a folder, and makes its
// certificates itself.
type envoyGatewayPlane struct {
	*program

	folder string
}

func envoyGateway() *subject {
	return &subject{
		name: "Envoy Gateway", recipe: "envoy-gateway.yaml", variant: delta(), start: startEnvoyGateway,
		// It takes no backends on the loopback interface, and the ports of its listeners are
		// the same for all Envoys.
		backends: []string{"10.0.0.1:23001", "10.0.0.1:23002"},
		node:     named("envoy-%d", "envoy-gateway-system/eg"),
		bootstrap: func(p controlPlane, _ int, b *bootstrapv3.Bootstrap) {
			p.(*envoyGatewayPlane).secure(b)
		},
		relay: func(p controlPlane, c *config.Config) {
			gateway, proxies := p.(*envoyGatewayPlane).certificates("envoy-gateway"), p.(*envoyGatewayPlane).certificates("envoy")
			c.Server.TLS = &config.ServerTLS{CertFile: gateway.cert, KeyFile: gateway.key, ClientCAFile: gateway.ca}
			up := c.Upstreams[0].TLS // server_name is the recipe's
			up.CAFile, up.CertFile, up.KeyFile = proxies.ca, proxies.cert, proxies.key
		},
	}
}

// certificates are the files of one secret.
type certificates struct{ ca, cert, key string }

func (p *envoyGatewayPlane) certificates(secret string) certificates {
	of := filepath.Join(p.folder, "config", "certs", secret)
	return certificates{ca: filepath.Join(of, "ca.crt"), cert: filepath.Join(of, "tls.crt"), key: filepath.Join(of, "tls.key")}
}

// secure gives an Envoy the certificates that Envoy Gateway gives to its proxies, which hold
// whoever is there to the name of Envoy Gateway.
func (p *envoyGatewayPlane) secure(b *bootstrapv3.Bootstrap) {
	file := func(name string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
	}
	of := p.certificates("envoy")
	b.GetStaticResources().GetClusters()[0].TransportSocket = &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: envoyproc.Any(&tlsv3.UpstreamTlsContext{
			CommonTlsContext: &tlsv3.CommonTlsContext{
				// Envoy Gateway takes nothing older, and Envoys offer 1.2 if not told otherwise.
				TlsParams:       &tlsv3.TlsParameters{TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3},
				TlsCertificates: []*tlsv3.TlsCertificate{{CertificateChain: file(of.cert), PrivateKey: file(of.key)}},
				ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
					ValidationContext: &tlsv3.CertificateValidationContext{
						TrustedCa: file(of.ca),
						MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
							SanType: tlsv3.SubjectAltNameMatcher_DNS,
							Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "envoy-gateway"}},
						}},
					},
				},
			},
		})},
	}
}

const envoyGatewayConfig = `apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
provider:
  type: Custom
  custom:
    resource: {type: File, file: {paths: [FOLDER/resources]}}
    infrastructure:
      type: Host
      host: {configHome: FOLDER/config, dataHome: FOLDER/data, stateHome: FOLDER/state, runtimeDir: FOLDER/run}
extensionApis: {enableBackend: true}
`

func startEnvoyGateway(t *testing.T) controlPlane {
	t.Helper()
	folder := t.TempDir()
	// It runs an Envoy of its own. The test has Envoys enough: this one does nothing, and ends
	// with whoever started it.
	write(t, 0o700, filepath.Join(folder, "data", "envoy-versions", envoyGatewayEnvoy, "bin", "envoy"),
		"#!/bin/sh\nparent=$PPID\nwhile kill -0 $parent 2>/dev/null; do sleep 1; done\n")
	write(t, 0o600, filepath.Join(folder, "config.yaml"), strings.ReplaceAll(envoyGatewayConfig, "FOLDER", folder))
	p := &envoyGatewayPlane{folder: folder}
	p.lead(t, "10.0.0.1:1")
	if out, err := exec.Command(envoyGatewayProgram, "certgen", "--local", "--config-home", folder+"/config").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.program = start(t, []string{"HOME=" + folder}, nil, envoyGatewayProgram, "server", "--config-path", folder+"/config.yaml")
	p.awaitPort(t, envoyGatewayAddr)
	// It misses changes of the folder that come before this.
	p.awaitLog(t, "Watching path added")
	return p
}

// write makes a file and the folders that it is in.
func write(t *testing.T, mode os.FileMode, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (p *envoyGatewayPlane) addr() string { return envoyGatewayAddr }

func (p *envoyGatewayPlane) version() string {
	return moduleVersion(envoyGatewayProgram, "github.com/envoyproxy/gateway")
}

func (p *envoyGatewayPlane) lead(t *testing.T, backend string) {
	t.Helper()
	host, port, err := net.SplitHostPort(backend)
	if err != nil {
		t.Fatal(err)
	}
	// Put in place at once: it reads the folder at every change, and half a file, too.
	folder := filepath.Join(p.folder, "resources")
	write(t, 0o600, filepath.Join(folder, ".next"), fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: eg}
spec:
  controllerName: gateway.envoyproxy.io/gatewayclass-controller
  parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: eg, namespace: envoy-gateway-system}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyProxy
metadata: {name: eg}
spec: {provider: {type: Host, host: {envoyVersion: %s}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: eg}
spec:
  gatewayClassName: eg
  listeners: [{name: http, protocol: HTTP, port: 28888}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: eg}]
  rules: [{backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: shop}]}]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: shop}
spec:
  endpoints: [{ip: {address: %s, port: %s}}]
`, envoyGatewayEnvoy, host, port))
	if err := os.Rename(filepath.Join(folder, ".next"), filepath.Join(folder, "resources.yaml")); err != nil {
		t.Fatal(err)
	}
}
