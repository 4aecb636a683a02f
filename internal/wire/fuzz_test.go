package wire

import (
	"bytes"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// FuzzDeltaResponse holds Decode to what the package comment says: it accepts
// what proto.Unmarshal accepts, and what it passes on is what the server sent,
// and nothing that a client would refuse.
func FuzzDeltaResponse(f *testing.F) {
	f.Add(encoded.Bytes(fullResponse()))
	f.Add([]byte("\x12\x08\x12\x03\x0a\x01T\x12\x01\x12"))
	f.Add([]byte("\x12\x08\x42\x06\x12\x00\x0a\x02nn\x4a\x04\x0a\x02\x12\x00\x42\x00"))
	f.Add([]byte("\x12\x06\x32\x04\x08\x05\x10\x07\x63\x64"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var want discoveryv3.DeltaDiscoveryResponse
		unmarshalErr := proto.Unmarshal(in, &want)

		var r Response
		buf := bytes.Clone(in) // the fuzzer's own must not be changed
		err := r.Decode(buf)
		switch {
		case err == nil:
		case unmarshalErr == nil:
			t.Fatalf("Decode refuses what proto.Unmarshal accepts: %v", err)
		default:
			return
		}
		clear(buf) // whatever was kept of it shows now
		same, other := rebuild(&r, false), rebuild(&r, true)
		asSent, asOther := parse(t, same), parse(t, other)
		if unmarshalErr != nil {
			return // control_plane, which no response is refused for, was broken
		}
		equal(t, forwarded(&want, &r, false), asSent)
		equal(t, forwarded(&want, &r, true), asOther)
		for i, res := range r.Resources {
			checkFields(t, want.Resources[i], res)
		}
	})
}

// rebuild puts a response together again, under other names if told so.
func rebuild(r *Response, rename bool) *Message {
	var b Builder
	for _, res := range r.Resources {
		if rename {
			b.AddAs(res, "other:"+res.Name)
		} else {
			b.Add(res)
		}
	}
	for _, name := range r.Removed {
		b.Remove(name)
	}
	for _, e := range r.Errors {
		if rename {
			b.AddError(e, "other:"+e.Name)
		} else {
			b.AddError(e, e.Name)
		}
	}
	return b.Finish(r.TypeURL, r.Version, r.Nonce)
}

// forwarded is what clients are to see of a server's response.
func forwarded(p *discoveryv3.DeltaDiscoveryResponse, r *Response, rename bool) *discoveryv3.DeltaDiscoveryResponse {
	out := &discoveryv3.DeltaDiscoveryResponse{
		TypeUrl: p.TypeUrl, Nonce: p.Nonce, SystemVersionInfo: p.SystemVersionInfo,
		RemovedResources: r.Removed,
	}
	for i, res := range p.Resources {
		res = passed(res)
		// The digest is of the bytes as they came, which the generated types may
		// write in another order; that it is theirs, TestACK4 says.
		if p.Resources[i].Version == "" {
			res.Version = r.Resources[i].Digest()
		}
		if rename {
			res = renamed(res, "other:"+r.Resources[i].Name)
		}
		out.Resources = append(out.Resources, res)
	}
	for _, e := range p.ResourceErrors {
		e = proto.CloneOf(e)
		if e.ResourceName == nil {
			e.ResourceName = &discoveryv3.ResourceName{}
		}
		if rename {
			e.ResourceName.Name = "other:" + e.ResourceName.Name
		}
		out.ResourceErrors = append(out.ResourceErrors, e)
	}
	return out
}

func checkFields(t *testing.T, p *discoveryv3.Resource, r *Resource) {
	t.Helper()
	name := p.Name
	if name == "" {
		name = p.ResourceName.GetName()
	}
	if r.Name != name || r.Version != p.Version || r.TypeURL() != p.Resource.GetTypeUrl() ||
		r.HasTTL != (p.Ttl != nil) || r.HasTTL && r.TTL() != p.Ttl.AsDuration() ||
		r.DoNotCache != p.CacheControl.GetDoNotCache() || r.HasPayload() != (p.Resource != nil) ||
		len(r.Aliases()) != len(p.Aliases) {
		t.Errorf("got %+v\nof %v", r, p)
	}
	for i, a := range p.Aliases {
		if r.Aliases()[i] != a {
			t.Errorf("alias %q, want %q", r.Aliases()[i], a)
		}
	}
	var got anypb.Any
	if err := proto.Unmarshal(r.Any(), &got); err != nil {
		t.Error(err)
	}
	if p.Resource != nil {
		equal(t, p.Resource, &got)
	}
}

// FuzzBuilder builds responses of random parts, several with one builder.
func FuzzBuilder(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(checkBuilder))
}

func TestBuilderModel(t *testing.T) { rapid.Check(t, checkBuilder) }

func checkBuilder(t *rapid.T) {
	var b Builder
	for range rapid.IntRange(1, 3).Draw(t, "responses") {
		want := &discoveryv3.DeltaDiscoveryResponse{}
		heartbeats := 0
		for range rapid.IntRange(0, 8).Draw(t, "parts") {
			ttl := time.Duration(rapid.Int64Min(1).Draw(t, "new ttl"))
			switch rapid.IntRange(0, 5).Draw(t, "part") {
			case 0, 1, 2:
				p := drawResource(t)
				r, err := NewResource(p)
				if err != nil {
					t.Fatal(err)
				}
				name := r.Name
				if rapid.Bool().Draw(t, "rename") {
					name = rapid.StringN(1, 40, -1).Draw(t, "as")
				}
				if name != r.Name {
					p = renamed(p, name)
				}
				out := passed(p)
				if rapid.Bool().Draw(t, "with ttl") {
					b.AddTTL(r, name, ttl)
					out.Ttl = durationpb.New(ttl)
				} else {
					b.AddAs(r, name)
				}
				want.Resources = append(want.Resources, out)
			case 3:
				name := rapid.String().Draw(t, "removed")
				b.Remove(name)
				want.RemovedResources = append(want.RemovedResources, name)
			case 4:
				out := &discoveryv3.Resource{
					Name:    rapid.StringN(1, 300, -1).Draw(t, "heartbeat"),
					Version: rapid.String().Draw(t, "version"), Ttl: durationpb.New(ttl),
				}
				b.AddHeartbeat(out.Name, out.Version, ttl)
				want.Resources = slices.Insert(want.Resources, heartbeats, out)
				heartbeats++
			case 5:
				e := ResourceError{Name: "n", Message: rapid.String().Draw(t, "message")}
				name := rapid.String().Draw(t, "error name")
				b.AddError(e, name)
				want.ResourceErrors = append(want.ResourceErrors, &discoveryv3.ResourceError{
					ResourceName: &discoveryv3.ResourceName{Name: name},
					ErrorDetail:  &statuspb.Status{Message: e.Message},
				})
			}
		}
		if got := proto.Size(want); b.Size() != got {
			t.Fatalf("Size = %d, want %d", b.Size(), got)
		}
		want.TypeUrl = rapid.String().Draw(t, "type URL")
		want.SystemVersionInfo = rapid.String().Draw(t, "system version")
		want.Nonce = rapid.String().Draw(t, "nonce")
		m := b.Finish(want.TypeUrl, want.SystemVersionInfo, want.Nonce)
		var got discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(m.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(want, &got) || m.Len() != proto.Size(want) {
			t.Fatalf("got  %v\nwant %v", &got, want)
		}
	}
}

func drawResource(t *rapid.T) *discoveryv3.Resource {
	p := &discoveryv3.Resource{
		Name:    rapid.String().Draw(t, "name"),
		Version: rapid.String().Draw(t, "version"),
		Aliases: rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "aliases"),
	}
	if rapid.Bool().Draw(t, "newer name") {
		p.ResourceName = &discoveryv3.ResourceName{Name: rapid.String().Draw(t, "resource_name")}
	}
	if rapid.Bool().Draw(t, "has payload") {
		// Around the size below which bytes are copied, and around a length of two bytes.
		p.Resource = payload(rapid.IntRange(0, 2*coalesceBelow).Draw(t, "payload"))
	}
	if rapid.Bool().Draw(t, "has ttl") {
		p.Ttl = &durationpb.Duration{Seconds: rapid.Int64().Draw(t, "ttl")}
	}
	if rapid.Bool().Draw(t, "cache_control") {
		p.CacheControl = &discoveryv3.Resource_CacheControl{DoNotCache: rapid.Bool().Draw(t, "do_not_cache")}
	}
	return p
}
