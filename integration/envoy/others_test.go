package envoy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"google.golang.org/protobuf/types/known/structpb"
)

func otherScenarios() []scenario {
	of := func(name string, play func(*world)) scenario {
		return scenario{name: name, proves: "VAR-7 VAR-8", forms: everyForm, behaviour: plane.GoControlPlane(), play: play}
	}
	return []scenario{
		of("secrets", secrets), of("runtime", runtimeLayers), of("extension configurations", extensions),
		of("scoped routes", scopedRoutes),
	}
}

// TestOtherTypes has Envoys ask for what is neither cluster nor listener nor route.
func TestOtherTypes_VAR7_VAR8(t *testing.T) { playAll(t, otherScenarios()) }

// certificate is a secret with a certificate of its own for a name.
func (w *world) certificate(secret, name string) *tlsv3.Secret {
	w.t.Helper()
	return once(w, "certificate "+secret+" "+name, func() *tlsv3.Secret { return newCertificate(w.t, secret, name) })
}

func newCertificate(t *testing.T, secret, name string) *tlsv3.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	inline := func(kind string, der []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{
			InlineBytes: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
		}}
	}
	return &tlsv3.Secret{Name: secret, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline("CERTIFICATE", certificate), PrivateKey: inline("PRIVATE KEY", private),
	}}}
}

// presents is the condition that a listener shows a certificate for a name.
func (w *world) presents(e *envoyproc.Envoy, listener, name string) func() bool {
	return func() bool {
		conn, err := w.shake(e, listener)
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName == name
	}
}

// shake makes a TLS connection to a listener, whatever certificate that shows.
func (w *world) shake(e *envoyproc.Envoy, listener string) (*tls.Conn, error) {
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{Timeout: time.Second},
		Config:    &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, // the name is looked at
	}
	conn, err := dialer.DialContext(w.t.Context(), "tcp", e.Addr(listener))
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), nil
}

// encrypted is a listener that leads to a cluster, with a certificate that is a secret.
func (r resources) encrypted(name, cluster, secret string) *listenerv3.Listener {
	l := onPort(name, 0, &hcmv3.HttpConnectionManager{
		StatPrefix: name, RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: route("inline", cluster)},
	})
	l.GetFilterChains()[0].TransportSocket = &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: envoyproc.Any(&tlsv3.DownstreamTlsContext{
			CommonTlsContext: &tlsv3.CommonTlsContext{
				TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: secret, SdsConfig: r.source()}},
			},
		})},
	}
	return l
}

func secrets(w *world) {
	a := w.backend("a")
	w.plane.Set(envoyproc.Static("one", a), w.encrypted("web", "one", "certificate"), w.certificate("certificate", "first.test"))
	e := w.envoy("secrets")
	w.need(soon, "the certificate is in use", w.presents(e, "web", "first.test"))
	w.plane.Set(w.certificate("certificate", "second.test"))
	w.within(prompt, "the changed certificate is in use", w.presents(e, "web", "second.test"))
	w.plane.Remove(&tlsv3.Secret{Name: "certificate"})
	w.stays(300*time.Millisecond, "the removed certificate", w.presents(e, "web", "second.test"))
	w.unscathed(e)
}

func runtimeLayers(w *world) {
	layer := func(value string) *runtimev3.Runtime {
		fields, err := structpb.NewStruct(map[string]any{"test.key": value})
		if err != nil {
			w.t.Fatal(err)
		}
		return &runtimev3.Runtime{Name: "layer", Layer: fields}
	}
	b := w.variant.Bootstrap("runtime", w.addr)
	b.LayeredRuntime = &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
		Name: "layer", LayerSpecifier: &bootstrapv3.RuntimeLayer_RtdsLayer_{
			RtdsLayer: &bootstrapv3.RuntimeLayer_RtdsLayer{Name: "layer", RtdsConfig: w.source()},
		},
	}}}
	w.plane.Set(layer("first-value"))
	e := envoyproc.Start(w.t, w.binary, b)
	has := func(value string) func() bool {
		return func() bool {
			page, err := e.Get("/runtime")
			return err == nil && strings.Contains(page, value)
		}
	}
	w.need(soon, "the layer is in use", has("first-value"))
	w.plane.Set(layer("second-value"))
	w.within(prompt, "the changed layer is in use", has("second-value"))
	w.unscathed(e)
}

func extensions(w *world) {
	fails := func(status uint32) *corev3.TypedExtensionConfig {
		return &corev3.TypedExtensionConfig{Name: "fails", TypedConfig: envoyproc.Any(&faultv3.HTTPFault{
			Abort: &faultv3.FaultAbort{
				ErrorType:  &faultv3.FaultAbort_HttpStatus{HttpStatus: status},
				Percentage: &typev3.FractionalPercent{Numerator: 100},
			},
		})}
	}
	w.plane.Set(envoyproc.Static("one", w.backend("a")), fails(http.StatusTeapot), onPort("web", 0, &hcmv3.HttpConnectionManager{
		StatPrefix: "web", RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: route("inline", "one")},
		HttpFilters: []*hcmv3.HttpFilter{{Name: "fails", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{
			ConfigDiscovery: &corev3.ExtensionConfigSource{
				ConfigSource: w.source(), TypeUrls: []string{"type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault"},
			},
		}}},
	}))
	e := w.envoy("extensions")
	status := func(want int) func() bool { return func() bool { return w.get(e, "web").Status == want } }
	w.need(soon, "the extension is in use", status(http.StatusTeapot))
	w.plane.Set(fails(http.StatusGone))
	w.within(prompt, "the changed extension is in use", status(http.StatusGone))
	w.unscathed(e)
}

// scope leads requests for a host to a route configuration.
func scope(host, route string) *routev3.ScopedRouteConfiguration {
	return &routev3.ScopedRouteConfiguration{
		Name: "scope-of-" + host, RouteConfigurationName: route,
		Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
			Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: host},
		}}},
	}
}

// scoped is a listener whose routes depend on the host.
func (r resources) scoped(name string) *listenerv3.Listener {
	return onPort(name, 0, &hcmv3.HttpConnectionManager{
		StatPrefix: name,
		RouteSpecifier: &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
			Name: "scopes", RdsConfigSource: r.source(),
			ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{
				Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
					Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{
						HeaderValueExtractor: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
							Name:        ":authority",
							ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{Index: 0},
						},
					},
				}},
			},
			ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: r.source()}},
		}},
	})
}

func scopedRoutes(w *world) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(
		envoyproc.Static("one", a), envoyproc.Static("two", b), w.scoped("web"), route("to-one", "one"), route("to-two", "two"),
		scope("first.test", "to-one"), scope("second.test", "to-two"),
	)
	e := w.envoy("scopes")
	w.need(soon, "the first scope", w.asked(e, "first.test", "a"))
	w.within(prompt, "the second scope", w.asked(e, "second.test", "b"))
	w.plane.Set(scope("first.test", "to-two"), route("to-three", "one"), scope("third.test", "to-three"))
	w.within(prompt, "the changed scope", w.asked(e, "first.test", "b"))
	w.within(prompt, "the new scope", w.asked(e, "third.test", "a"))
	w.plane.Remove(scope("second.test", ""))
	w.within(prompt, "the removed scope", w.unknown(e, "second.test"))
	w.atOnce("a scope that stays", w.asked(e, "third.test", "a"))
	w.unscathed(e)
}
