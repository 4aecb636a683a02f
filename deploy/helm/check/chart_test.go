// Package check renders the chart, and holds what comes out to the types of Kubernetes and cert-manager, and to the
// schema of the relay's configuration.
package check

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// objects are what the chart makes of a file of values.
type objects struct {
	deployment  *appsv1.Deployment
	services    []*corev1.Service
	config      *corev1.ConfigMap
	budget      *policyv1.PodDisruptionBudget
	certificate *certmanager.Certificate
	test        *corev1.Pod
}

// render gives what helm sends to Kubernetes.
func render(values map[string]any) (string, error) {
	chart, err := loader.Load("../xdsrelay")
	if err != nil {
		return "", err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "edge", Namespace: "xds", Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&out, "---\n%s\n", files[name])
		}
	}
	return out.String(), nil
}

// decode reads rendered objects. A field that their types do not have is an error.
func decode(t *testing.T, text string) (o objects) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, certmanager.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(text)))
	buffer := make([]byte, len(text)+1)
	for {
		n, err := documents.Read(buffer)
		if err == io.EOF {
			return o
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.Trim(buffer[:n], "- \n")) == 0 {
			continue
		}
		object, _, err := strict.Decode(buffer[:n], nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, buffer[:n])
		}
		switch x := object.(type) {
		case *appsv1.Deployment:
			o.deployment = x
		case *corev1.Service:
			o.services = append(o.services, x)
		case *corev1.ConfigMap:
			o.config = x
		case *policyv1.PodDisruptionBudget:
			o.budget = x
		case *certmanager.Certificate:
			o.certificate = x
		case *corev1.Pod:
			o.test = x
		default:
			t.Errorf("an object of type %T", x)
		}
	}
}

// load reads a file of values.
func load(t *testing.T, name string) (values map[string]any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := sigsyaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestChart(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files of values, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := render(load(t, file))
			if err != nil {
				t.Fatal(err)
			}
			o := decode(t, text)
			if o.deployment == nil || len(o.services) != 2 || o.config == nil || o.budget == nil || o.test == nil {
				t.Fatalf("objects are missing:\n%s", text)
			}
			if got, want := o.certificate != nil, strings.Contains(file, "cert-manager"); got != want {
				t.Errorf("certificate: %v, want %v", got, want)
			}
			o.selects(t)
			o.fits(t)
			o.configures(t)
		})
	}
}

// selects checks that services and budget find the pods, and not that of the test.
func (o *objects) selects(t *testing.T) {
	t.Helper()
	template := o.deployment.Spec.Template
	selectors := []map[string]string{o.deployment.Spec.Selector.MatchLabels, o.budget.Spec.Selector.MatchLabels}
	for _, s := range o.services {
		selectors = append(selectors, s.Spec.Selector)
	}
	for _, s := range template.Spec.TopologySpreadConstraints {
		selectors = append(selectors, s.LabelSelector.MatchLabels)
	}
	for _, s := range selectors {
		if len(s) == 0 || !labels.SelectorFromSet(s).Matches(labels.Set(template.Labels)) {
			t.Errorf("%v does not select the pods with %v", s, template.Labels)
		}
		if labels.SelectorFromSet(s).Matches(labels.Set(o.test.Labels)) {
			t.Errorf("%v selects the pod of the test", s)
		}
	}
}

// fits checks what has to agree within the pod, and between it and the services.
func (o *objects) fits(t *testing.T) {
	t.Helper()
	pod := o.deployment.Spec.Template.Spec
	relay := pod.Containers[0]
	var volumes, ports []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, m := range relay.VolumeMounts {
		if !slices.Contains(volumes, m.Name) || m.SubPath != "" {
			t.Errorf("the mount %+v has no volume, or is not a whole one", m)
		}
	}
	for _, p := range relay.Ports {
		ports = append(ports, p.Name)
	}
	for _, s := range o.services {
		for _, p := range s.Spec.Ports {
			if !slices.Contains(ports, p.TargetPort.StrVal) {
				t.Errorf("%s: the pod has no port %q", s.Name, p.TargetPort.StrVal)
			}
			if p.Name == "admin" && s.Spec.ClusterIP != corev1.ClusterIPNone {
				t.Errorf("%s: clients reach the admin port", s.Name)
			}
		}
	}
	for _, p := range []*corev1.Probe{relay.StartupProbe, relay.LivenessProbe, relay.ReadinessProbe} {
		if p.HTTPGet.Port.StrVal != "probes" {
			t.Errorf("a probe of the port %v", p.HTTPGet.Port)
		}
	}
	if slices.Contains(ports, "admin") != strings.Contains(o.config.Data["xdsrelay.yaml"], "tokens_file") {
		t.Errorf("ports %q, of which admin is to be there with tokens only", ports)
	}
}

// configures holds the configuration to the schema of the relay, and its times to those of the pod.
func (o *objects) configures(t *testing.T) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../../config/schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := sigsyaml.Unmarshal([]byte(o.config.Data["xdsrelay.yaml"]), &config); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(config); err != nil {
		t.Errorf("the relay's configuration: %v", err)
	}
	var asked, ports []string // where relays are asked, and are to be asked
	for _, s := range o.services {
		for _, p := range s.Spec.Ports {
			if p.Name == "peers" {
				asked = append(asked, fmt.Sprintf("[%s.%s.svc:%d]", s.Name, s.Namespace, p.Port))
			}
		}
	}
	if peers, ok := config["peers"].(map[string]any); ok {
		ports = []string{fmt.Sprint(peers["addresses"])}
	}
	if !slices.Equal(asked, ports) {
		t.Errorf("relays ask each other at %q, and the Services have %q", ports, asked)
	}
	pod := o.deployment.Spec.Template.Spec
	var leave, drain int64
	if hook := pod.Containers[0].Lifecycle; hook != nil {
		leave = hook.PreStop.Sleep.Seconds
	}
	server, _ := config["server"].(map[string]any)
	if _, err := fmt.Sscanf(fmt.Sprint(server["drain"]), "%ds", &drain); err != nil {
		t.Fatalf("server.drain %v: %v", server["drain"], err)
	}
	if grace := *pod.TerminationGracePeriodSeconds; grace < leave+drain+10 {
		t.Errorf("the grace period is %d s; leaving takes %d s and draining %d s, and 10 s more", grace, leave, drain)
	}
}

// The pod of "helm test" comes as a client: with a certificate of its own, where servers and clients have a CA each.
func TestChartTest_OPS6(t *testing.T) {
	for of, want := range map[string]string{"{}": "xdsrelay-server", "{secret: xds-client}": "xds-client"} {
		var values map[string]any
		text := "{tls: {secret: xdsrelay-server}, test: " + of + ", config: {upstreams: [{name: a, default: true, endpoints: [a:1]}]}}"
		if err := sigsyaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		rendered, err := render(values)
		if err != nil {
			t.Fatalf("test: %s: %v", of, err)
		}
		if got := decode(t, rendered).test.Spec.Volumes; len(got) != 1 || got[0].Secret == nil || got[0].Secret.SecretName != want {
			t.Errorf("test: %s: the volumes %+v, want the secret %s", of, got, want)
		}
	}
}

// Values that the chart does not know, or would overwrite, are refused.
func TestChartRefuses(t *testing.T) {
	upstreams := "upstreams: [{name: a, default: true, endpoints: [a:1]}]"
	for name, values := range map[string]string{
		"nothing":         "{}",
		"no upstream":     "config: {upstreams: []}",
		"unknown value":   "{replica: 3, config: {" + upstreams + "}}",
		"server.listen":   "config: {server: {listen: ':1'}, " + upstreams + "}",
		"server.drain":    "config: {server: {drain: 1s}, " + upstreams + "}",
		"cert_file":       "config: {server: {tls: {cert_file: x}}, " + upstreams + "}",
		"probes_listen":   "config: {admin: {probes_listen: ':1'}, " + upstreams + "}",
		"cache.dir":       "config: {cache: {dir: /x}, " + upstreams + "}",
		"port too low":    "{port: 443, config: {" + upstreams + "}}",
		"peers of nobody": "{peers: {secret: relays}, config: {" + upstreams + "}}",
		"port's name":     "{ports: [{name: Rest, port: 18101}], config: {" + upstreams + "}}",
		"not an integer":  "{drainSeconds: 20s, config: {" + upstreams + "}}",
	} {
		t.Run(name, func(t *testing.T) {
			var v map[string]any
			if err := sigsyaml.Unmarshal([]byte(values), &v); err != nil {
				t.Fatal(err)
			}
			if text, err := render(v); err == nil {
				t.Errorf("rendered:\n%s", text)
			}
		})
	}
}
