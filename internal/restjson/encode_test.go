package restjson

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func TestVAR5_golden(t *testing.T) {
	small := stored(t, &discoveryv3.Resource{Name: "c", Version: "7", Aliases: []string{"d"}, Resource: encoded.Any(&clusterv3.Cluster{
		Name: "c", AltStatName: "<&>\u2028", ConnectTimeout: durationpb.New(250 * time.Millisecond),
	})})
	const payload = `{"@type":"` + resource.ClusterType + `","name":"c","altStatName":"<&>` + "\u2028" + `","connectTimeout":"0.250s"}`
	const wrapped = `{"@type":"` + wire.ResourceTypeURL + `",`
	inSpelling := stored(t, &discoveryv3.Resource{ResourceName: &discoveryv3.ResourceName{Name: "c"}, Resource: encoded.Any(cluster("c"))})
	for name, tt := range map[string]struct {
		response Outgoing
		want     string
	}{
		"VAR-5 a payload": {
			Outgoing{VersionInfo: "v<1>", TypeURL: resource.ClusterType, Nonce: "o", Resources: []OutgoingResource{{Resource: small}}},
			`{"versionInfo":"v<1>","resources":[` + payload + `],"typeUrl":"` + resource.ClusterType + `","nonce":"o"}`,
		},
		"RES-2 nothing": {
			Outgoing{VersionInfo: "2", TypeURL: resource.ClusterType},
			`{"versionInfo":"2","typeUrl":"` + resource.ClusterType + `"}`,
		},
		"NAME-4 a payload keeps the server's spelling": {
			Outgoing{Resources: []OutgoingResource{{Resource: small, Name: "e", TTL: new(time.Second)}}},
			`{"resources":[` + payload + `]}`,
		},
		"RES-13 wrapped": {
			Outgoing{Wrapped: true, Resources: []OutgoingResource{{Resource: small}}},
			`{"resources":[` + wrapped + `"name":"c","aliases":["d"],"version":"7","resource":` + payload + `}]}`,
		},
		"RES-13 TTL-1 NAME-4 wrapped, with ttl and another spelling": {
			Outgoing{Wrapped: true, Resources: []OutgoingResource{{Resource: small, Name: "e", TTL: new(1500 * time.Millisecond)}}},
			`{"resources":[` + wrapped + `"name":"e","aliases":["d"],"version":"7","ttl":"1.500s","resource":` + payload + `}]}`,
		},
		"TTL-3 a heartbeat": {
			Outgoing{Wrapped: true, Resources: []OutgoingResource{{Resource: small, TTL: new(time.Minute), Heartbeat: true}}},
			`{"resources":[` + wrapped + `"name":"c","aliases":["d"],"version":"7","ttl":"60s"}]}`,
		},
		"NAME-4 ACK-4 another spelling of resource_name, a digest": {
			Outgoing{Wrapped: true, Resources: []OutgoingResource{{Resource: inSpelling, Name: "e", Heartbeat: true}}},
			`{"resources":[` + wrapped + `"resourceName":{"name":"e"},"version":"` + inSpelling.Digest() + `"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := EncodeResponse(&tt.response)
			if err != nil {
				t.Fatal(err)
			}
			if got.Body.String() != tt.want+"\n" {
				t.Errorf("got  %swant %s", &got.Body, tt.want)
			}
			if got.Lossy != nil {
				t.Errorf("said to lose something: %q", got.Lossy)
			}
		})
	}
}

func within(packed *anypb.Any) *anypb.Any {
	return encoded.Any(&clusterv3.Cluster{Name: "x", TypedExtensionProtocolOptions: map[string]*anypb.Any{"a": packed}})
}

func nested(packed *anypb.Any, times int) *anypb.Any {
	for range times {
		packed = encoded.Any(&discoveryv3.Resource{Resource: packed})
	}
	return packed
}

func TestOPS6_encodeErrors(t *testing.T) {
	endless := encoded.Any(&clusterv3.Cluster{Name: "x", AltStatName: hush, ConnectTimeout: &durationpb.Duration{Seconds: 1 << 60}})
	inList := encoded.Any(&corev3.TypedExtensionConfig{Name: "x", TypedConfig: &anypb.Any{TypeUrl: unheard, Value: []byte(hush)}})
	for name, tt := range map[string]struct {
		payload *anypb.Any
		wrapped bool
		why     string
	}{
		"an unknown type":                 {&anypb.Any{TypeUrl: unheard, Value: []byte(hush)}, false, `this build does not know the type "` + unheard + `"`},
		"an unknown type, wrapped":        {&anypb.Any{TypeUrl: unheard, Value: []byte(hush)}, true, `this build does not know the type "` + unheard + `"`},
		"an unknown type within":          {within(&anypb.Any{TypeUrl: unheard, Value: []byte(hush)}), false, `this build does not know the type "` + unheard + `"`},
		"an unknown type within, wrapped": {inList, true, `this build does not know the type "` + unheard + `"`},
		"not what its type says":          {&anypb.Any{TypeUrl: resource.ClusterType, Value: []byte(hush)}, false, `a payload is not what its type "` + resource.ClusterType + `" says`},
		"not what its type says, within":  {within(&anypb.Any{TypeUrl: resource.ClusterType, Value: []byte(hush)}), false, `a payload is not what its type "` + resource.ClusterType + `" says`},
		"bytes without a type within":     {within(&anypb.Any{Value: []byte(hush)}), false, "it has a payload without a type"},
		"an empty Any":                    {&anypb.Any{}, false, "it has a payload without a type"},
		"nested too deep":                 {nested(encoded.Any(secret(hush)), maxNesting+1), false, "payloads are nested too deep in it"},
		"a value that JSON cannot say":    {endless, false, "it holds a value that JSON has no form for"},
		"no payload":                      {nil, false, "it has no payload"},
	} {
		t.Run("VAR-8 OPS-6 "+name, func(t *testing.T) {
			res := stored(t, &discoveryv3.Resource{Name: "n", Version: "1", Resource: tt.payload})
			ok := OutgoingResource{Resource: stored(t, &discoveryv3.Resource{Name: "ok", Resource: encoded.Any(cluster("ok"))})}
			got, err := EncodeResponse(&Outgoing{Wrapped: tt.wrapped, Resources: []OutgoingResource{ok, {Resource: res}}})
			refused, is := errors.AsType[*EncodeError](err)
			if !is || got != nil {
				t.Fatalf("got %v, %v", got, err)
			}
			if want := fmt.Sprintf(`resource "n" of type %q cannot be sent as JSON: %s`, tt.payload.GetTypeUrl(), tt.why); err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if refused.Name != "n" || refused.TypeURL != tt.payload.GetTypeUrl() || strings.Contains(err.Error(), hush) {
				t.Errorf("got %+v", refused)
			}
		})
	}
}

// withUnknownField adds a field that m's type does not have.
func withUnknownField[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(append([]byte{0xfa, 0xff, 0x03, byte(len(hush))}, hush...))
	return m
}

func TestVAR8_lossyIsTold(t *testing.T) {
	var o Outgoing
	for name, payload := range map[string]*anypb.Any{
		"whole":  encoded.Any(cluster("a")),
		"itself": encoded.Any(withUnknownField(cluster("b"))),
		"within": within(within(encoded.Any(withUnknownField(cluster("c"))))),
		"deep":   encoded.Any(&clusterv3.Cluster{LoadAssignment: withUnknownField(endpoints("d"))}),
	} {
		o.Resources = append(o.Resources, OutgoingResource{Resource: stored(t, &discoveryv3.Resource{Name: name, Resource: payload})})
	}
	got, err := EncodeResponse(&o)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Lossy)
	if want := []string{"deep", "itself", "within"}; !slices.Equal(got.Lossy, want) {
		t.Errorf("got %q, want %q", got.Lossy, want)
	}
}

// received has a client read a response, by way of HTTP.
func received(body *Body, typeURL string) (*Response, error) {
	w := httptest.NewRecorder()
	WriteResponse(w, body)
	r := w.Result()
	defer r.Body.Close()
	return ReadResponse(r, typeURL, 1<<20)
}

func TestVAR5_STR10_roundTrip(t *testing.T) {
	all := one()
	for typeURL, message := range all {
		for _, wrapped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s wrapped %v", typeURL, wrapped), func(t *testing.T) {
				payload := encoded.Any(message)
				sent := stored(t, &discoveryv3.Resource{Name: "x", Version: "9", Resource: payload})
				encoded, err := EncodeResponse(&Outgoing{
					VersionInfo: "1", TypeURL: typeURL, Nonce: "o", ControlPlane: "cp <1>", Wrapped: wrapped,
					Resources: []OutgoingResource{{Resource: sent, TTL: new(time.Minute)}},
				})
				if err != nil {
					t.Fatal(err)
				}
				got, err := received(&encoded.Body, typeURL)
				if err != nil {
					t.Fatal(err)
				}
				if got.Version != "1" || got.TypeURL != typeURL || got.Nonce != "o" || got.ControlPlane != "cp <1>" || got.Discarded != "" || len(got.Resources) != 1 {
					t.Fatalf("got %+v", got)
				}
				received := got.Resources[0]
				if string(received.Any()) != string(sent.Any()) {
					t.Errorf("another payload: %x\nwant %x", received.Any(), sent.Any())
				}
				wantVersion := ""
				if wrapped {
					wantVersion = "9"
				}
				if received.Name != "x" || received.Version != wantVersion || received.HasTTL != wrapped || received.Digest() != sent.Digest() {
					t.Errorf("got %q at version %q, ttl %v", received.Name, received.Version, received.TTL())
				}
			})
		}
	}
	if len(all) != len(Paths())-len(v2Paths) {
		t.Error("a type is missing")
	}
}

// TestACK4_sameDigestEveryTime: maps have no order in memory, and spaces are put
// into JSON at random.
func TestACK4_sameDigestEveryTime(t *testing.T) {
	sent := stored(t, &discoveryv3.Resource{Name: "x", Resource: encoded.Any(listener("x"))})
	digests := map[string]bool{}
	for range 50 {
		encoded, err := EncodeResponse(&Outgoing{Resources: []OutgoingResource{{Resource: sent}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := received(&encoded.Body, resource.ListenerType)
		if err != nil {
			t.Fatal(err)
		}
		digests[got.Resources[0].Digest()] = true
	}
	if len(digests) != 1 || !digests[sent.Digest()] {
		t.Errorf("digests %v, want %q", digests, sent.Digest())
	}
}

// TestRES13_metadata: what the server sent beside the payload goes along, and is
// looked into likewise.
func TestRES13_metadata(t *testing.T) {
	sent := func(m *anypb.Any) *Outgoing {
		return &Outgoing{Wrapped: true, Resources: []OutgoingResource{{Resource: stored(t, &discoveryv3.Resource{
			Name: "n", Version: "1", Resource: encoded.Any(cluster("n")),
			Metadata: &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{"a": m}},
		})}}}
	}
	got, err := EncodeResponse(sent(encoded.Any(withUnknownField(&corev3.Node{Id: "x"}))))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"metadata":{"typedFilterMetadata":{"a":{"@type":"type.googleapis.com/envoy.config.core.v3.Node","id":"x"}}}`; !strings.Contains(got.Body.String(), want) {
		t.Errorf("got %s", &got.Body)
	}
	if !slices.Equal(got.Lossy, []string{"n"}) {
		t.Errorf("VAR-8: lossy %q", got.Lossy)
	}
	_, err = EncodeResponse(sent(&anypb.Any{TypeUrl: unheard, Value: []byte(hush)}))
	if want := `resource "n" of type "` + resource.ClusterType + `" cannot be sent as JSON: this build does not know the type "` + unheard + `"`; err == nil || err.Error() != want {
		t.Errorf("OPS-6: got  %v\nwant %s", err, want)
	}
}

// TestTranscode: what was made once gives the same responses as what is made for
// each.
func TestTranscode(t *testing.T) {
	res := stored(t, &discoveryv3.Resource{Name: "a", Version: "1", Resource: encoded.Any(withUnknownField(listener("a")))})
	once, err := Transcode(res)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Outgoing{
		{Resources: []OutgoingResource{{Resource: res}}},
		{Wrapped: true, Resources: []OutgoingResource{{Resource: res, Name: "b", TTL: new(time.Second)}}},
	} {
		each, err := EncodeResponse(&o)
		if err != nil {
			t.Fatal(err)
		}
		o.Resources[0].Transcoded = once
		shared, err := EncodeResponse(&o)
		if err != nil {
			t.Fatal(err)
		}
		if shared.Body.String() != each.Body.String() || !slices.Equal(shared.Lossy, []string{"a"}) || !slices.Equal(each.Lossy, shared.Lossy) {
			t.Errorf("got  %s%q\nwant %s%q", &shared.Body, shared.Lossy, &each.Body, each.Lossy)
		}
		if size := once.Size(); size < 100 || size > shared.Body.Size() {
			t.Errorf("a size of %d in a response of %d", size, shared.Body.Size())
		}
	}
	_, err = Transcode(stored(t, &discoveryv3.Resource{Name: "n", Version: "1"}))
	if want := `resource "n" of type "" cannot be sent as JSON: it has no payload`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	beat := &Outgoing{Resources: []OutgoingResource{{Resource: res, Heartbeat: true}}}
	if got, err := EncodeResponse(beat); err == nil || !strings.HasSuffix(err.Error(), "it has no payload") {
		t.Errorf("TTL-3: a bare heartbeat: %v, %v", got, err)
	}
	nameless := &Outgoing{Wrapped: true, Resources: []OutgoingResource{{Resource: stored(t, &discoveryv3.Resource{Version: "1"})}}}
	if got, err := EncodeResponse(nameless); err != nil || !strings.Contains(got.Body.String(), `"version":"1"`) {
		t.Errorf("NAME-9: %v, %v", got, err)
	}
}

func BenchmarkEncodeResponse(b *testing.B) {
	o := &Outgoing{VersionInfo: "1", TypeURL: resource.ClusterType}
	for i := range 100 {
		name := fmt.Sprintf("c%d", i)
		o.Resources = append(o.Resources, OutgoingResource{Resource: stored(b, &discoveryv3.Resource{Name: name, Resource: encoded.Any(cluster(name))})})
	}
	encode := func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			if _, err := EncodeResponse(o); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("100 clusters", encode)
	for i := range o.Resources {
		var err error
		if o.Resources[i].Transcoded, err = Transcode(o.Resources[i].Resource); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("100 clusters, transcoded before", encode)
}
