package plane

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/protobuf/encoding/protojson"
)

// polls answers REST polls (VAR-5): with everything that is asked for and exists, or with 304 if the client
// presents its version, at once or when it has waited as long as the behaviour wants. Of a type without full state a server has
// nothing to say of names that do not exist.
type polls struct {
	plane  *Plane
	server *server
}

// ServeHTTP implements [http.Handler].
func (h *polls) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	h.server.running.Add(1) // within Serve, which is waited for too
	defer h.server.running.Done()
	services := xds.Services()
	i := slices.IndexFunc(services, func(s xds.Service) bool { return s.Path != "" && s.Path == q.URL.Path })
	if i < 0 || q.Method != http.MethodPost {
		http.NotFound(w, q)
		return
	}
	body, err := io.ReadAll(q.Body)
	request := new(discovery.DiscoveryRequest)
	if err == nil {
		err = protojson.Unmarshal(body, request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if request.GetTypeUrl() == "" {
		request.TypeUrl = services[i].TypeURL
	}
	p := h.plane
	if p.divide != nil {
		p = p.divide(request.GetNode())
	}
	if !p.speaks(q.Context()) {
		return
	}
	if h.plane.refuses() {
		http.Error(w, errCut.Error(), http.StatusServiceUnavailable)
		return
	}
	response := p.poll(q.Context(), request)
	if response == nil {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	answer, err := protojson.Marshal(response)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that left is not told
}

// speaks waits while the plane is mute; false if the client left meanwhile.
func (p *Plane) speaks(ctx context.Context) bool {
	for {
		p.mu.Lock()
		mute, changed := p.behaviour.Mute, p.changed
		p.mu.Unlock()
		if !mute {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// poll gives the response, or nil if there is nothing new to say.
func (p *Plane) poll(ctx context.Context, r *discovery.DiscoveryRequest) *discovery.DiscoveryResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recordLocked(new(stream), Request{
		REST: true, TypeURL: r.GetTypeUrl(), Subscribe: r.GetResourceNames(), VersionInfo: r.GetVersionInfo(),
		Rejection: r.GetErrorDetail().GetMessage(), Rejects: r.GetErrorDetail() != nil,
		Message: r,
	}, r.GetNode())
	p.polling[r.GetTypeUrl()]++
	defer func() { p.polling[r.GetTypeUrl()]-- }()
	ctx, end := context.WithTimeout(ctx, p.behaviour.LongPoll)
	defer end()
	for {
		response, changed := p.newLocked(r), p.changed
		if response != nil || r.GetVersionInfo() == "" {
			return response
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// newLocked is what there is to say to a poll, or nil.
func (p *Plane) newLocked(r *discovery.DiscoveryRequest) *discovery.DiscoveryResponse {
	if p.behaviour.Mute || p.held[r.GetTypeUrl()] {
		return nil
	}
	s := newSubscription(r.GetTypeUrl())
	s.state(r.GetResourceNames(), p.behaviour.LegacyWildcard)
	response := &discovery.DiscoveryResponse{TypeUrl: r.GetTypeUrl()}
	digest := sha256.New()
	var names []string
	for _, e := range p.coveredLocked(r.GetTypeUrl(), s) {
		_, _ = fmt.Fprintf(digest, "%q %s\n", e.Name, e.Version) // a hash cannot fail
		response.Resources = append(response.Resources, e.bare(&p.behaviour))
		names = append(names, e.Name)
	}
	response.VersionInfo = hex.EncodeToString(digest.Sum(nil))[:16]
	silent := len(names) == 0 && !s.star && !fullState(r.GetTypeUrl())
	if silent || response.GetVersionInfo() == r.GetVersionInfo() {
		return nil
	}
	p.sentLocked(Response{TypeURL: r.GetTypeUrl(), Version: response.GetVersionInfo(), Names: names})
	return response
}
