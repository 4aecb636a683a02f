package controlplanes

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// sovereignFolder has the virtual environment.
const sovereignFolder = "../testdata/sovereign"

// sovereignPlane is sovereign with templates, into which it puts the values of a file that it
// reads every second.
type sovereignPlane struct {
	*program

	at, values string
}

func sovereign() *subject {
	return &subject{
		name: "sovereign", recipe: "sovereign.yaml", variant: envoyproc.Variant{REST: true}, start: startSovereign, listener: "web",
		node: named("edge-%d", "edge"),
		relay: func(_ controlPlane, c *config.Config) {
			c.Upstreams[0].Poll.Interval = config.Duration(200 * time.Millisecond)
		},
	}
}

// The templates of sovereign. Only Envoys that tell their version get something: the recipe
// must pass it on. Envoys that poll have no ADS.
const (
	sovereignConfig = `templates:
  default:
    - {type: clusters, spec: {protocol: file, serialization: jinja2, path: FOLDER/nothing.yaml}}
    - {type: endpoints, spec: {protocol: file, serialization: jinja2, path: FOLDER/nothing.yaml}}
    - {type: listeners, spec: {protocol: file, serialization: jinja2, path: FOLDER/nothing.yaml}}
    - {type: routes, spec: {protocol: file, serialization: jinja2, path: FOLDER/nothing.yaml}}
  "1.":
    - {type: clusters, spec: {protocol: file, serialization: jinja2, path: FOLDER/clusters.yaml}}
    - {type: endpoints, spec: {protocol: file, serialization: jinja2, path: FOLDER/endpoints.yaml}}
    - {type: listeners, spec: {protocol: file, serialization: jinja2, path: FOLDER/listeners.yaml}}
    - {type: routes, spec: {protocol: file, serialization: jinja2, path: FOLDER/routes.yaml}}
template_context:
  context:
    backend: {protocol: file, serialization: yaml, path: FOLDER/backend.yaml}
  refresh: true
  refresh_rate: 1
`
	sovereignSource = `{resource_api_version: V3, api_config_source: {api_type: REST, transport_api_version: V3, cluster_names: [xds], ` +
		`refresh_delay: 0.1s, request_timeout: 60s}}`
	sovereignClusters = `resources:
  - name: shop
    type: EDS
    connect_timeout: 1s
    eds_cluster_config: {eds_config: SOURCE}
`
	sovereignEndpoints = `resources:
  - cluster_name: shop
    endpoints:
      - lb_endpoints:
          - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {{ backend.port }} }}}
`
	sovereignListeners = `resources:
  - name: web
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
      - filters:
          - name: http
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
              stat_prefix: web
              rds: {route_config_name: routes, config_source: SOURCE}
              http_filters:
                - name: router
                  typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`
	sovereignRoutes = `resources:
  - name: routes
    virtual_hosts:
      - {name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: shop}}]}
`
)

// sovereignServer is sovereign without the workers of its own command, which would outlive it.
const sovereignServer = `import sys, uvicorn
from sovereign.app import app
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")`

func startSovereign(t *testing.T) controlPlane {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml": sovereignConfig, "clusters.yaml": sovereignClusters, "endpoints.yaml": sovereignEndpoints,
		"listeners.yaml": sovereignListeners, "routes.yaml": sovereignRoutes, "backend.yaml": "{port: 1}\n",
		"nothing.yaml": "resources: []\n",
	} {
		text = strings.NewReplacer("FOLDER", folder, "SOURCE", sovereignSource).Replace(text)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := strconv.Itoa(ports.Free(t))
	p := &sovereignPlane{
		program: start(t, []string{
			"HOME=" + folder, "SOVEREIGN_CONFIG=file://" + folder + "/config.yaml",
		}, nil, sovereignFolder+"/venv/bin/python", "-c", sovereignServer, port),
		at: net.JoinHostPort("127.0.0.1", port), values: filepath.Join(folder, "backend.yaml"),
	}
	p.awaitPort(t, p.at)
	return p
}

func (p *sovereignPlane) addr() string { return p.at }

func (p *sovereignPlane) version() string {
	out, err := exec.Command(sovereignFolder+"/venv/bin/python", "-c",
		"import importlib.metadata as m; print(m.version('sovereign'), end='')").Output()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func (p *sovereignPlane) lead(t *testing.T, backend string) {
	t.Helper()
	_, port, err := net.SplitHostPort(backend)
	if err != nil {
		t.Fatal(err)
	}
	// It reads the file in its own time: a file that is replaced is never half of one.
	next := p.values + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "{port: %s}\n", port), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, p.values); err != nil {
		t.Fatal(err)
	}
}
