package restjson

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

func TestVAR5_paths(t *testing.T) {
	want := map[string]string{
		"/v3/discovery:listeners":         "type.googleapis.com/envoy.config.listener.v3.Listener",
		"/v3/discovery:routes":            "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
		"/v3/discovery:scoped-routes":     "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration",
		"/v3/discovery:clusters":          "type.googleapis.com/envoy.config.cluster.v3.Cluster",
		"/v3/discovery:endpoints":         "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
		"/v3/discovery:secrets":           "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
		"/v3/discovery:runtime":           "type.googleapis.com/envoy.service.runtime.v3.Runtime",
		"/v3/discovery:extension_configs": "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
	}
	if paths := Paths(); len(paths) != len(want)+len(v2Paths) {
		t.Errorf("paths: %q", paths)
	}
	for path, typeURL := range want {
		if got := serviceAt(path).TypeURL; got != typeURL {
			t.Errorf("the type of %s is %q", path, got)
		}
		if got, ok := Path(typeURL); !ok || got != path {
			t.Errorf("the path of %s is %q", typeURL, got)
		}
		if !slices.Contains(Paths(), path) {
			t.Errorf("%s is not listed", path)
		}
	}
	if path, ok := Path(resource.VirtualHostType); ok {
		t.Errorf("virtual hosts are polled at %q", path)
	}
	if typeURL := serviceAt("/v3/discovery:virtual-hosts").TypeURL; typeURL != "" {
		t.Errorf("virtual hosts are %q", typeURL)
	}
}

// v2Paths are those that Envoy polled when its API was v2's.
var v2Paths = map[string]string{
	"/v2/discovery:listeners":     "type.googleapis.com/envoy.api.v2.Listener",
	"/v2/discovery:routes":        "type.googleapis.com/envoy.api.v2.RouteConfiguration",
	"/v2/discovery:scoped-routes": "type.googleapis.com/envoy.api.v2.ScopedRouteConfiguration",
	"/v2/discovery:clusters":      "type.googleapis.com/envoy.api.v2.Cluster",
	"/v2/discovery:endpoints":     "type.googleapis.com/envoy.api.v2.ClusterLoadAssignment",
	"/v2/discovery:secrets":       "type.googleapis.com/envoy.api.v2.auth.Secret",
	"/v2/discovery:runtime":       "type.googleapis.com/envoy.service.discovery.v2.Runtime",
}

func TestVAR9_paths(t *testing.T) {
	for path, typeURL := range v2Paths {
		if got := serviceAt(path).TypeURL; got != typeURL || !slices.Contains(Paths(), path) {
			t.Errorf("the type of %s is %q, listed are %s", path, got, Paths())
		}
		if got, ok := Path(typeURL); ok {
			t.Errorf("the relay polls %s at %q: upstream it speaks v3", typeURL, got)
		}
	}
	for _, path := range []string{"/v2/discovery:extension_configs", "/v2/discovery:virtual-hosts", "/v2/discovery:health_check", "/v1/clusters", ""} {
		if typeURL := serviceAt(path).TypeURL; typeURL != "" {
			t.Errorf("%q serves %q", path, typeURL)
		}
	}
	poll := func(body string) (string, error) {
		r := httptest.NewRequest(http.MethodPost, "/v2/discovery:clusters", strings.NewReader(body))
		got, err := decodeRequest(httptest.NewRecorder(), r, 1000)
		return got.GetTypeUrl(), err
	}
	const v2Cluster = "type.googleapis.com/envoy.api.v2.Cluster"
	if got, err := poll(`{"type_url":"` + resource.ClusterType + `"}`); err != nil || got != resource.ClusterType {
		t.Errorf("VAR-9 a poll for v3's type asks for %q: %v", got, err)
	}
	for _, body := range []string{`{}`, `{"type_url":"` + v2Cluster + `"}`} {
		const want = `resources of API v2 are not served as JSON: poll with type_url "` + resource.ClusterType + `", or ask for ` + v2Cluster + ` on a gRPC stream`
		_, err := poll(body)
		if refused, ok := errors.AsType[*StatusError](err); !ok || refused.Code != http.StatusBadRequest || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("VAR-9 %s: %v", body, err)
		}
	}
	const others = `type_url must be "` + v2Cluster + `" or "` + resource.ClusterType +
		`", that of its list collections, or left out at /v2/discovery:clusters, and is "x"`
	if _, err := poll(`{"type_url":"x"}`); err == nil || !strings.HasSuffix(err.Error(), others) {
		t.Errorf("VAR-10 another type: %v", err)
	}
}

const clustersPath = "/v3/discovery:clusters"

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, clustersPath, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func TestDecodeRequest(t *testing.T) {
	const full = `{"version_info":"1","node":{"id":"n"},"resourceNames":["a","b"],"typeUrl":"` + resource.ClusterType + `","response_nonce":"o","errorDetail":{"code":3,"message":"no"}}`
	for name, tt := range map[string]struct{ body, contentType string }{
		"VAR-5 either form of the names":    {full, "application/json"},
		"VAR-5 a charset":                   {full, "application/json; charset=utf-8"},
		"VAR-5 no content type":             {full, ""},
		"VAR-10 no type_url":                {strings.Replace(full, `"typeUrl":"`+resource.ClusterType+`",`, "", 1), "application/json"},
		"REST-2 unknown fields":             {strings.Replace(full, `"id":"n"`, `"id":"n","newer":{"a":[1]}`, 1), "application/json"},
		"REST-2 a value of an unknown enum": {strings.Replace(full, `"id":"n"`, `"id":"n","listening_addresses":[{"socketAddress":{"protocol":"NEWER"}}]`, 1), "application/json"},
		"REST-2 details of an unknown type": {strings.Replace(full, `"code":3`, `"code":3,"details":[{"@type":"`+unheard+`","a":{}}]`, 1), "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(tt.body)
			r.Header.Set("Content-Type", tt.contentType)
			if tt.contentType == "" {
				r.Header.Del("Content-Type")
			}
			got, err := decodeRequest(httptest.NewRecorder(), r, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if got.GetVersionInfo() != "1" || got.GetNode().GetId() != "n" || !slices.Equal(got.GetResourceNames(), []string{"a", "b"}) ||
				got.GetTypeUrl() != resource.ClusterType || got.GetResponseNonce() != "o" || got.GetErrorDetail().GetMessage() != "no" {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestREST2_refusals(t *testing.T) {
	with := func(header, value string) *http.Request {
		r := post("{}")
		r.Header.Set(header, value)
		return r
	}
	at := func(method, path string) *http.Request {
		return httptest.NewRequest(method, path, strings.NewReader("{}"))
	}
	broken := post("")
	broken.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), failing{}))
	const noRequest = "the body is no DiscoveryRequest in JSON: "
	for name, tt := range map[string]struct {
		request *http.Request
		code    int
		message string
	}{
		"REST-2 an unknown path": {at(http.MethodPost, "/v3/discovery:virtual-hosts"), 404, "no such path; there are /v3/discovery:listeners, /v3/discovery:routes, /v3/discovery:scoped-routes, " +
			"/v3/discovery:clusters, /v3/discovery:endpoints, /v3/discovery:secrets, /v3/discovery:runtime, /v3/discovery:extension_configs, " +
			"/v2/discovery:listeners, /v2/discovery:routes, /v2/discovery:scoped-routes, /v2/discovery:clusters, /v2/discovery:endpoints, " +
			"/v2/discovery:secrets, /v2/discovery:runtime"},
		"REST-2 another method":          {at(http.MethodGet, clustersPath), 405, "a poll is a POST"},
		"REST-2 another content":         {with("Content-Type", "application/grpc"), 415, `Content-Type must be application/json, and is "application/grpc"`},
		"REST-2 no content type at all":  {with("Content-Type", ";;"), 415, `Content-Type must be application/json, and is ";;"`},
		"REST-2 compressed":              {with("Content-Encoding", "gzip"), 415, `Content-Encoding must be left out, and is "gzip"`},
		"REST-2 too large":               {post(`{"version_info":"` + strings.Repeat("a", 1000) + `"}`), 413, "the body is larger than 1000 bytes"},
		"REST-2 cut off":                 {broken, 400, "the body ends too early"},
		"REST-2 nothing":                 {post(""), 400, noRequest + "line 1:1: unexpected token"},
		"REST-2 half of it":              {post(`{"node":{`), 400, noRequest + "the text ends too early"},
		"REST-2 no JSON":                 {post("{\n <" + hush), 400, noRequest + "line 2:2: not JSON"},
		"REST-2 a list":                  {post("[]"), 400, noRequest + "line 1:1: unexpected token"},
		"REST-2 another type":            {post("{\"version_info\":\n  {\"" + hush + "\":1}}"), 400, noRequest + "line 2:3: invalid value for string field versionInfo"},
		"REST-2 a string for a list":     {post(`{"resource_names":"` + hush + `"}`), 400, noRequest + "line 1:19: unexpected token"},
		"REST-2 another type far within": {post(`{"node":{"metadata":{"a":"b"},"locality":{"zone":["` + hush + `"]}}}`), 400, noRequest + "line 1:50: invalid value for string field zone"},
		"REST-2 twice":                   {post(`{"version_info":"1","versionInfo":"2"}`), 400, noRequest + "line 1:21: duplicate field versionInfo"},
		"REST-2 deep":                    {post(`{"node":{"metadata":{"a":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}}}`), 400, noRequest + "nested too deep"},
		"VAR-10 the type of another path": {
			post(`{"type_url":"` + resource.ListenerType + `"}`), 400,
			`type_url must be "` + resource.ClusterType + `", that of its list collections, or left out at ` + clustersPath + `, and is "` + resource.ListenerType + `"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			_, err := decodeRequest(w, tt.request, 1000)
			refused, ok := errors.AsType[*StatusError](err)
			if !ok || refused.Code != tt.code || refused.Message != tt.message {
				t.Fatalf("got %v\nwant %d %s", err, tt.code, tt.message)
			}
			WriteError(w, err)
			var body status
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != tt.code || body.Message != tt.message {
				t.Errorf("sent %d %s", w.Code, w.Body)
			}
			if allow := w.Header().Get("Allow"); (allow == "POST") != (tt.code == 405) {
				t.Errorf("Allow: %q", allow)
			}
		})
	}
}

// failing is a body whose connection breaks.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestWriteError(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		code int
		body string
	}{
		"REST-2 refused":     {refuse(400, "a %q", "b"), 400, `{"code":3,"message":"a \"b\""}`},
		"REST-2 wrapped":     {errors.Join(refuse(415, "x")), 415, `{"code":3,"message":"x"}`},
		"REST-2 unknown":     {refuse(404, "x"), 404, `{"code":12,"message":"x"}`},
		"OPS-5 too large":    {refuse(413, "x"), 413, `{"code":8,"message":"x"}`},
		"OPS-5 too many":     {refuse(429, "x"), 429, `{"code":8,"message":"x"}`},
		"who are you":        {refuse(401, "x"), 401, `{"code":16,"message":"x"}`},
		"not you":            {refuse(403, "x"), 403, `{"code":7,"message":"x"}`},
		"OPS-4 draining":     {refuse(503, "x"), 503, `{"code":14,"message":"x"}`},
		"VAR-8 not sendable": {&EncodeError{Name: "n", TypeURL: "t", Err: errNoType}, 500, `{"code":13,"message":"resource \"n\" of type \"t\" cannot be sent as JSON: it has a payload without a type"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			WriteError(w, tt.err)
			if w.Code != tt.code || w.Body.String() != tt.body+"\n" || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("got %d %s%v", w.Code, w.Body, w.Header())
			}
		})
	}
}
