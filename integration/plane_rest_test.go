package integration

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// planeREST serves a plane's contents to those who poll (VAR-5).
type planeREST struct {
	plane    *plane
	addr     string
	server   *http.Server
	handlers sync.WaitGroup

	mu   sync.Mutex
	held map[string]int // polls that wait for a change, by type; guarded by mu
}

// startREST serves REST beside gRPC, and gives the address.
func (p *plane) startREST(t testing.TB) string {
	t.Helper()
	r := &planeREST{plane: p, held: make(map[string]int)}
	lis := ports.Listen(t)
	r.addr = lis.Addr().String()
	r.start(lis)
	p.mu.Lock()
	p.rest = r
	p.mu.Unlock()
	return r.addr
}

func (r *planeREST) start(lis net.Listener) {
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: patience}
	server := r.server
	r.handlers.Go(func() { _ = server.Serve(lis) }) // ends with stop
}

func (r *planeREST) stop() {
	_ = r.server.Close()
	r.handlers.Wait()
}

// ServeHTTP answers one poll: with everything that is asked for and exists, or
// with 304 if the client has that version.
func (r *planeREST) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.handlers.Add(1)
	defer r.handlers.Done()
	i := slices.IndexFunc(services, func(s service) bool {
		return !s.deltaOnly && strings.TrimPrefix(q.URL.Path, "/v3/discovery:") == s.path
	})
	if i < 0 || q.Method != http.MethodPost {
		http.NotFound(w, q)
		return
	}
	body, err := io.ReadAll(q.Body)
	request := new(discovery.DiscoveryRequest)
	if err == nil {
		err = protojson.Unmarshal(body, request)
	}
	if typeURL := services[i].typeURL; err != nil || request.GetTypeUrl() != "" && request.GetTypeUrl() != typeURL {
		http.Error(w, "a DiscoveryRequest for "+typeURL+" is expected", http.StatusBadRequest)
		return
	}
	request.TypeUrl = services[i].typeURL
	response := r.poll(q, request)
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
	_, _ = w.Write(answer)
}

// poll gives the response, or nil if the version is current and stays so.
func (r *planeREST) poll(q *http.Request, request *discovery.DiscoveryRequest) *discovery.DiscoveryResponse {
	p := r.plane
	if p.worlds != nil {
		p = p.worlds.world(p.worlds.of(request.GetNode()))
	}
	t := new(planeType)
	t.wants(request)
	end := time.NewTimer(p.longPoll)
	defer end.Stop()
	for first := true; ; first = false {
		p.mu.Lock()
		if first && request.GetNode() == nil {
			p.reportLocked("STR-2: a poll without node")
		}
		changed := p.changed
		if request.GetVersionInfo() != p.versionLocked(request.GetTypeUrl()) {
			response := p.sotwResponse(request.GetTypeUrl(), p.sotwNames(request.GetTypeUrl(), t), false)
			p.mu.Unlock()
			return response
		}
		p.mu.Unlock()
		r.holds(request.GetTypeUrl(), 1)
		over := false
		select {
		case <-changed:
		case <-end.C:
			over = true
		case <-q.Context().Done():
			over = true
		}
		r.holds(request.GetTypeUrl(), -1)
		if over {
			return nil
		}
	}
}

// holds counts the polls that are held.
func (r *planeREST) holds(typeURL string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[typeURL] += n
}

// awaitPolls waits until a poll of each type is held.
func (p *plane) awaitPolls(t testing.TB, types []string) {
	t.Helper()
	waitFor(t, "polls that are held", func() bool {
		r := p.rest
		r.mu.Lock()
		defer r.mu.Unlock()
		return !slices.ContainsFunc(types, func(typeURL string) bool { return r.held[typeURL] == 0 })
	})
}
