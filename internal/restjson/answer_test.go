package restjson

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func TestPoll(t *testing.T) {
	base, err := url.Parse("https://cp.example:8443/xds?tenant=a")
	if err != nil {
		t.Fatal(err)
	}
	poll := Poll{
		Node: &corev3.Node{Id: "n", Cluster: "<c>"}, TypeURL: resource.ScopedRouteType, ResourceNames: []string{"a", "b"},
		VersionInfo: "1", ResponseNonce: "o", ErrorDetail: &statuspb.Status{Code: 3, Message: "no"},
	}
	r, err := poll.NewRequest(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.URL.String(); got != "https://cp.example:8443/xds/v3/discovery:scoped-routes?tenant=a" || r.Method != http.MethodPost {
		t.Errorf("%s %s", r.Method, got)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"version_info":"1","node":{"id":"n","cluster":"<c>"},"resource_names":["a","b"],"type_url":"` + resource.ScopedRouteType +
		`","response_nonce":"o","error_detail":{"code":3,"message":"no"}}`
	if string(body) != want {
		t.Errorf("VAR-5: got  %s\nwant %s", body, want)
	}

	served := httptest.NewRequest(http.MethodPost, "/v3/discovery:scoped-routes", bytes.NewReader(body))
	served.Header = r.Header
	got, err := decodeRequest(httptest.NewRecorder(), served, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&discoveryv3.DiscoveryRequest{
		Node: poll.Node, TypeUrl: poll.TypeURL, ResourceNames: poll.ResourceNames,
		VersionInfo: poll.VersionInfo, ResponseNonce: poll.ResponseNonce, ErrorDetail: poll.ErrorDetail,
	}, got, protocmp.Transform()); diff != "" {
		t.Errorf("VAR-5: what the server reads (-want +got):\n%s", diff)
	}

	for name, bad := range map[string]Poll{
		"VAR-5 no such path": {TypeURL: resource.VirtualHostType},
		"invalid UTF-8":      {TypeURL: resource.ClusterType, VersionInfo: "\xff"},
	} {
		if r, err := bad.NewRequest(t.Context(), base); err == nil || !strings.HasPrefix(err.Error(), "restjson: ") {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
	}
}

// answer is what a server sends.
type answer struct {
	status      int
	contentType string
	body        string
}

func (a answer) response() *http.Response {
	r := &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body))}
	if a.contentType != "" {
		r.Header.Set("Content-Type", a.contentType)
	}
	return r
}

// read has a client read it.
func (a answer) read(typeURL string, limit int64) (*Response, error) {
	r := a.response()
	defer r.Body.Close()
	return ReadResponse(r, typeURL, limit)
}

func TestReadResponse(t *testing.T) {
	const plain = `{"@type":"` + resource.RuntimeType + `","name":"a"}`
	inner := `{"@type":"` + wire.ResourceTypeURL + `","name":"b","version":"4","ttl":"2s","aliases":["c"],"resource":` + plain + `}`
	unnamed := `{"@type":"` + wire.ResourceTypeURL + `","resource":` + plain + `}`
	redirect := `{"@type":"` + wire.ResourceTypeURL + `","name":"r","resource":{"@type":"type.googleapis.com/xds.core.v3.ResourceLocator","id":"x"}}`
	heartbeat := `{"@type":"` + wire.ResourceTypeURL + `","name":"h","version":"4","ttl":"2s"}`
	body := `{"version_info":"1","type_url":"` + resource.RuntimeType + `","nonce":"o","canary":true,"control_plane":{"identifier":"x"},
		"resources":[` + strings.Join([]string{plain, inner, unnamed, redirect, heartbeat}, ",") + `]}`
	for name, contentType := range map[string]string{
		"VAR-5 JSON":                            "application/json",
		"VAR-5 a charset":                       "application/json; charset=utf-8",
		"VAR-5 a suffix":                        "application/problem+json",
		"VAR-5 none":                            "",
		"VAR-5 what net/http makes of none":     "text/plain; charset=utf-8",
		"VAR-5 upper case, as headers may have": "Application/JSON",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := answer{200, contentType, body}.read(resource.RuntimeType, int64(len(body)))
			if err != nil {
				t.Fatal(err)
			}
			if got.Version != "1" || got.TypeURL != resource.RuntimeType || got.Nonce != "o" || got.Discarded != "" {
				t.Errorf("got %+v", got)
			}
			type shown struct {
				Name, Version, TypeURL string
				TTL                    time.Duration
			}
			var resources []shown
			for _, r := range got.Resources {
				resources = append(resources, shown{r.Name, r.Version, r.TypeURL(), r.TTL()})
			}
			if diff := cmp.Diff([]shown{
				{"a", "", resource.RuntimeType, 0},
				{"b", "4", resource.RuntimeType, 2 * time.Second},
				{"a", "", resource.RuntimeType, 0},
				{"r", "", "type.googleapis.com/xds.core.v3.ResourceLocator", 0},
				{"h", "4", "", 2 * time.Second},
			}, resources); diff != "" {
				t.Errorf("RES-13: (-want +got):\n%s", diff)
			}
		})
	}
	newer := answer{200, "", `{"resources":[` + strings.Replace(plain, `"name"`, `"newer":{"a":1},"name"`, 1) + `]}`}
	got, err := newer.read(resource.RuntimeType, 1<<20)
	if err != nil || len(got.Resources) != 1 || got.TypeURL != resource.RuntimeType {
		t.Fatalf("got %+v, %v", got, err)
	}
	if want := "unknown field newer"; !strings.HasSuffix(got.Discarded, want) {
		t.Errorf("VAR-8: discarded %q, want %q", got.Discarded, want)
	}
}

func TestACK6_undecodable(t *testing.T) {
	const ok = `{"@type":"` + resource.SecretType + `","name":"a"}`
	response := func(resources ...string) string {
		return `{"versionInfo":"1","resources":[` + strings.Join(resources, ",") + `],"nonce":"o"}`
	}
	for name, tt := range map[string]struct {
		body  string
		index int
		read  bool // version and nonce
		want  string
	}{
		"nothing":           {"", -1, false, "cannot decode the response: line 1:1: unexpected token"},
		"half of it":        {response(ok)[:60], -1, false, "cannot decode the response: the text ends too early"},
		"HTML":              {"<html>" + hush, -1, false, "cannot decode the response: line 1:1: not JSON"},
		"a wrong field":     {`{"resources":"` + hush + `","nonce":"o","version_info":"1"}`, -1, false, "cannot decode the response: line 1:14: unexpected token"},
		"a wrong nonce":     {`{"nonce":["` + hush + `"]}`, -1, false, "cannot decode the response: line 1:10: invalid value for string field nonce"},
		"another type":      {`{"versionInfo":"1","nonce":"o","typeUrl":"` + resource.ClusterType + `"}`, -1, true, `cannot decode the response: its type_url is "` + resource.ClusterType + `", and "` + resource.SecretType + `" was asked for`},
		"a wrong value":     {response(ok, `{"@type":"`+resource.SecretType+`","name":["`+hush+`"]}`), 1, true, "cannot decode resources[1]: line 1:88: invalid value for string field name"},
		"a wrong secret":    {response(`{"@type":"` + resource.SecretType + `","genericSecret":{"secret":{"inlineBytes":"` + hush + `!"}}}`), 0, true, "cannot decode resources[0]: line 1:122: invalid value for bytes field inlineBytes"},
		"a key as a field":  {response(`{"@type":"` + resource.SecretType + `","tlsCertificate":"` + hush + `"}`), 0, true, "cannot decode resources[0]: line 1:98: unexpected token"},
		"a wrong duration":  {response(`{"@type":"` + wire.ResourceTypeURL + `","ttl":"` + hush + `"}`), 0, true, "cannot decode resources[0]: line 1:74: invalid google.protobuf.Duration"},
		"an unknown type":   {response(ok, ok, `{"@type":"`+unheard+`","a":"`+hush+`"}`), 2, true, "cannot decode resources[2]: line 1:10: this build does not know the type " + unheard},
		"an unknown within": {response(`{"@type":"` + wire.ResourceTypeURL + `","resource":{"@type":"` + unheard + `"}}`), 0, true, "cannot decode resources[0]: line 1:88: this build does not know the type " + unheard},
		"no type":           {response(ok, `{"name":"a"}`), 1, true, "cannot decode resources[1]: it has no type"},
		"an empty resource": {response(ok, `{}`), 1, true, "cannot decode resources[1]: it has no type"},
		"of another type":   {response(`{"@type":"` + resource.ClusterType + `","name":"a"}`), 0, true, `cannot decode resources[0]: its type is "` + resource.ClusterType + `", and "` + resource.SecretType + `" was asked for`},
		"an empty wrapper":  {response(`{"@type":"` + wire.ResourceTypeURL + `"}`), 0, true, "cannot decode resources[0]: neither a name nor a payload nor a ttl"},
		"a field twice":     {response(`{"@type":"` + resource.SecretType + `","name":"a","name":"b"}`), 0, true, "cannot decode resources[0]: line 1:92: duplicate field name"},
		"nested too deep":   {response(`{"@type":"` + wire.ResourceTypeURL + `","resource":` + strings.Repeat(`{"@type":"`+wire.ResourceTypeURL+`","resource":`, 200) + "{}" + strings.Repeat("}", 201)), 0, true, "cannot decode resources[0]: nested too deep"},
	} {
		t.Run("ACK-6 OPS-6 "+name, func(t *testing.T) {
			_, err := answer{200, "application/json", tt.body}.read(resource.SecretType, 1<<20)
			undecodable, ok := errors.AsType[*UndecodableError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if err.Error() != tt.want || undecodable.Index != tt.index || strings.Contains(err.Error(), hush) {
				t.Errorf("got  %d %v\nwant %d %s", undecodable.Index, err, tt.index, tt.want)
			}
			if tt.read && (undecodable.VersionInfo != "1" || undecodable.Nonce != "o") {
				t.Errorf("ACK-2: version %q, nonce %q", undecodable.VersionInfo, undecodable.Nonce)
			}
		})
	}
}

func TestReadResponse_failures(t *testing.T) {
	long := strings.Repeat("é", 300)
	for name, tt := range map[string]struct {
		answer answer
		want   string
		is     error
	}{
		"REST-1 304":                   {answer{304, "", ""}, "restjson: unchanged", ErrUnchanged},
		"REST-3 a Status":              {answer{400, "", `{"code":3,"message":"no such\nthing"}`}, "HTTP status 400 (Bad Request): no such thing", nil},
		"REST-3 a text":                {answer{500, "", "fetch error: \xff\n"}, "HTTP status 500 (Internal Server Error): fetch error: �", nil},
		"REST-3 a long text":           {answer{502, "", long}, "HTTP status 502 (Bad Gateway): " + long[:256] + "…", nil},
		"REST-3 nothing":               {answer{599, "", ""}, "HTTP status 599", nil},
		"REST-3 a redirect":            {answer{302, "", ""}, "HTTP status 302 (Found)", nil},
		"OPS-6 what is no error":       {answer{203, "", `{"resources":["hunter2"]}`}, "HTTP status 203 (Non-Authoritative Information)", nil},
		"OPS-6 a redirect's text":      {answer{307, "", `{"message":"hunter2"}`}, "HTTP status 307 (Temporary Redirect)", nil},
		"REST-3 no content":            {answer{204, "", ""}, "HTTP status 204 (No Content)", nil},
		"REST-3 too large":             {answer{200, "", strings.Repeat(" ", 1001)}, "restjson: the response is larger than the limit of 1000 bytes", ErrTooLarge},
		"REST-3 HTML":                  {answer{200, "text/html", "{}"}, `restjson: the response is not JSON but "text/html"`, nil},
		"REST-3 a broken content type": {answer{200, ";", "{}"}, `restjson: the response is not JSON but ";"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := tt.answer.read(resource.ClusterType, 1000)
			if r != nil || err == nil || err.Error() != tt.want {
				t.Fatalf("got %v, %v\nwant %s", r, err, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("%v is not %v", err, tt.is)
			}
			if refused, ok := errors.AsType[*StatusError](err); ok && refused.Code != tt.answer.status {
				t.Errorf("code %d", refused.Code)
			}
		})
	}
}

func TestREST3_cutOff(t *testing.T) {
	cut := answer{status: 200}.response()
	defer cut.Body.Close()
	cut.Body = io.NopCloser(failing{})
	r, err := ReadResponse(cut, resource.ClusterType, 1000)
	if want := "restjson: read the response: unexpected EOF"; r != nil || err == nil || err.Error() != want || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, %v\nwant %s", r, err, want)
	}
}

func TestERR1_errors(t *testing.T) {
	body := `{"typeUrl":"` + resource.RuntimeType + `","resource_errors":[{"resourceName":{"name":"a"},"errorDetail":{"code":14,"message":"why"}},{}]}`
	got, err := answer{200, "", body}.read(resource.RuntimeType, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Errors) != 2 || got.Errors[0].Name != "a" || !got.Errors[0].Transient() || got.Errors[0].Message != "why" || got.Errors[1].Name != "" {
		t.Fatalf("read %+v", got.Errors)
	}
	written, err := EncodeResponse(&Outgoing{Errors: []OutgoingError{{&got.Errors[0], "b"}, {&got.Errors[1], "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"resourceErrors":[{"resourceName":{"name":"b"},"errorDetail":{"code":14,"message":"why"}},{"resourceName":{"name":"a"}}]}`
	if written.Body.String() != want+"\n" {
		t.Errorf("wrote %s, want %s", &written.Body, want)
	}
	// A detail that JSON has no way to write is left out.
	odd, err := wire.NewResourceError(&discoveryv3.ResourceError{ErrorDetail: &statuspb.Status{Code: 5, Details: []*anypb.Any{{TypeUrl: "type.googleapis.com/x.Y"}}}})
	if err != nil {
		t.Fatal(err)
	}
	written, err = EncodeResponse(&Outgoing{Errors: []OutgoingError{{&odd, "a"}}})
	if want := `{"resourceErrors":[{"resourceName":{"name":"a"},"errorDetail":{"code":5}}]}` + "\n"; err != nil || written.Body.String() != want {
		t.Errorf("wrote %s, want %s: %v", &written.Body, want, err)
	}
}
