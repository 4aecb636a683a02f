package controlplanes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"google.golang.org/protobuf/types/known/structpb"
)

const consulProgram = "../testdata/consul/target/consul"

// consulPlane is a Consul server in development mode, which keeps nothing on disk. It has ACLs:
// what is not allowed to a token is denied.
type consulPlane struct {
	*program

	at, api string
	token   string // of the proxies
}

func consul() *subject {
	return &subject{
		name: "Consul", recipe: "consul.yaml", variant: delta(), start: startConsul, isolated: true,
		// A proxy's listeners have the same ports wherever it runs, and here it runs twice.
		backends: []string{"127.0.0.1:23001", "127.0.0.1:23002"},
		node:     consulProxy,
		bootstrap: func(p controlPlane, _ int, b *bootstrapv3.Bootstrap) {
			b.GetDynamicResources().GetAdsConfig().GetGrpcServices()[0].InitialMetadata = []*corev3.HeaderValue{
				{Key: "x-consul-token", Value: p.(*consulPlane).token},
			}
		},
		relay: func(_ controlPlane, c *config.Config) {
			c.Server.TLS, c.Upstreams[0].TLS = nil, nil // its port without TLS
		},
	}
}

// consulProxy is the node of a proxy of the service "web", as Consul's own bootstraps have it.
func consulProxy(number int) *corev3.Node {
	metadata, err := structpb.NewStruct(map[string]any{"namespace": "default", "partition": "default"})
	if err != nil {
		panic(err) // a mistake of the test
	}
	return &corev3.Node{Id: fmt.Sprint("web-sidecar-proxy-", number), Cluster: "web", Metadata: metadata}
}

// consulManagement is the token of the test and of the agent itself.
const consulManagement = "5a8b1f0e-7d0c-4b7e-9b61-0c6a3a2f1d11"

func startConsul(t *testing.T) controlPlane {
	t.Helper()
	free := func() int { return ports.Free(t) }
	http, grpc := free(), free()
	file, err := json.Marshal(map[string]any{
		"bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "node_name": "test", "disable_update_check": true,
		"ports": map[string]int{
			"http": http, "grpc": grpc, "server": free(), "serf_lan": free(), "serf_wan": -1, "dns": -1, "https": -1, "grpc_tls": -1,
		},
		"acl": map[string]any{
			"enabled": true, "default_policy": "deny",
			"tokens": map[string]string{"initial_management": consulManagement, "agent": consulManagement},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "consul.json")
	write(t, 0o600, name, string(file))
	p := &consulPlane{
		at: net.JoinHostPort("127.0.0.1", strconv.Itoa(grpc)), api: "http://127.0.0.1:" + strconv.Itoa(http),
		program: start(t, []string{"HOME=" + filepath.Dir(name)}, nil, consulProgram, "agent", "-dev", "-config-file", name),
	}
	p.awaitPort(t, p.at)
	p.token = p.proxyToken(t)
	p.register(t, map[string]any{"ID": "web", "Name": "web", "Address": "127.0.0.1", "Port": 23003})
	p.register(t, map[string]any{"ID": "shop", "Name": "shop", "Address": "127.0.0.1", "Port": 23004})
	for number := range envoysBehind {
		p.register(t, map[string]any{
			"Kind": "connect-proxy", "ID": consulProxy(number).GetId(), "Name": "web-sidecar-proxy", "Address": "127.0.0.1", "Port": 23005,
			"Proxy": map[string]any{
				"DestinationServiceName": "web", "LocalServiceAddress": "127.0.0.1", "LocalServicePort": 23003,
				"Upstreams": []map[string]any{{"DestinationName": "shop", "LocalBindPort": 23006}},
			},
		})
	}
	return p
}

// proxyToken makes a token that allows what the proxies of the service "web" need. The server
// has no leader at first, and then its ACLs are not there yet.
func (p *consulPlane) proxyToken(t *testing.T) string {
	t.Helper()
	var made struct {
		SecretID string `json:"SecretID"`
	}
	var problem error
	if _, ok := wait.Until(patience, func() bool {
		var answer []byte
		answer, problem = p.put("/v1/acl/token", map[string]any{"ServiceIdentities": []map[string]string{{"ServiceName": "web"}}})
		if problem == nil {
			problem = json.Unmarshal(answer, &made)
		}
		return problem == nil
	}); !ok {
		t.Fatal(problem)
	}
	return made.SecretID
}

// register registers an instance of a service, or changes it.
func (p *consulPlane) register(t *testing.T, service map[string]any) {
	t.Helper()
	if _, err := p.put("/v1/agent/service/register", service); err != nil {
		t.Fatal(err)
	}
}

// put makes a request of the HTTP API, and gives the answer.
func (p *consulPlane) put(path string, body any) ([]byte, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest(http.MethodPut, p.api+path, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Consul-Token", consulManagement)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, strings.TrimSpace(string(answer)))
	}
	return answer, err
}

func (p *consulPlane) addr() string { return p.at }
func (p *consulPlane) version() string {
	return moduleVersion(consulProgram, "github.com/hashicorp/consul")
}

// lead changes where the proxy of the service "shop" is.
func (p *consulPlane) lead(t *testing.T, backend string) {
	t.Helper()
	host, port, err := net.SplitHostPort(backend)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	p.register(t, map[string]any{
		"Kind": "connect-proxy", "ID": "shop-sidecar-proxy", "Name": "shop-sidecar-proxy", "Address": host, "Port": number,
		"Proxy": map[string]any{"DestinationServiceName": "shop"},
	})
}
