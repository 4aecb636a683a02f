package downstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// slowWriter is the connection of a client that does not read its answer until it is told to.
type slowWriter struct {
	*httptest.ResponseRecorder

	reads chan struct{}
}

func (w *slowWriter) Write(b []byte) (int, error) {
	<-w.reads
	return w.ResponseRecorder.Write(b)
}

// pollSlowly polls, and reads the answer when read is called.
func (h *harness) pollSlowly(path string, names ...string) (w *slowWriter, read func()) {
	h.Helper()
	return h.poller(path, names...).pollSlowly()
}

func (p *restPoller) pollSlowly() (w *slowWriter, read func()) {
	h, path := p.h, p.path
	h.Helper()
	body, err := protojson.Marshal(&p.next)
	h.must(err)
	writer := &slowWriter{httptest.NewRecorder(), make(chan struct{})}
	done := make(chan struct{})
	r := httptest.NewRequestWithContext(h.Context(), http.MethodPost, path, strings.NewReader(string(body)))
	go func() {
		defer close(done)
		h.server.REST().ServeHTTP(writer, r)
	}()
	read = sync.OnceFunc(func() {
		close(writer.reads)
		<-done
	})
	h.shutdown = append(h.shutdown, read)
	h.advance(mergeTime)
	return writer, read
}

// Answers to polls that are being written have so many bytes together. What several polls get counts once.
func TestRESTBytes_LIM1_LIM3(t *testing.T) {
	const size = 10_000
	limit := func(c *Config) { c.PerClient.RESTBytes = 3 * size }
	long := func(name string) string { return name + strings.Repeat("n", size) }
	restBubble(t, func(h *harness) {
		w := &h.server.polling.writing
		h.opaque.real(clusterType, "1", long("a"), long("b"), long("c"), "small")
		h.poller(clusterPath, long("a"), long("b"), long("c"), "small").poll() // from now on they are known
		h.advance(restWait)
		var reads []func()
		slowly := func(names ...string) {
			_, read := h.pollSlowly(clusterPath, names...)
			reads = append(reads, read)
		}
		for range 100 {
			slowly(long("a"))
		}
		once := w.bytes.Load()
		if once < size || once > size+size/2 || len(w.texts) != 1 {
			t.Errorf("%d texts with %d bytes, want one of about %d", len(w.texts), once, size)
		}
		slowly(long("a"), long("b")) // of which a is there
		if n := w.bytes.Load(); n > 2*once+partBytes {
			t.Errorf("%d bytes, want about twice %d", n, once)
		}
		p := h.poller(clusterPath, long("b"), long("c")).poll()
		h.advance(mergeTime)
		if p.answer.Code != http.StatusServiceUnavailable || p.answer.Header().Get("Retry-After") == "" ||
			!strings.Contains(p.answer.Body.String(), "limits.rest_bytes") {
			t.Fatalf("the poll's status is %d, with %v", p.answer.Code, p.answer.Header())
		}
		h.limited(LimitREST, 1)
		if n := w.bytes.Load(); n > 2*once+partBytes {
			t.Errorf("%d bytes, want about twice %d", n, once)
		}
		h.poller(clusterPath, "small").poll().wants("200 small=1")
		for _, read := range reads {
			read()
		}
		if n := w.bytes.Load(); n != 0 || len(w.texts) != 0 {
			t.Errorf("%d texts with %d bytes are left", len(w.texts), n)
		}
		if p.poll(); p.answer.Code != http.StatusOK {
			t.Errorf("the poll's status is %d once there is room", p.answer.Code)
		}
		h.opaque.real(clusterType, "1", many(4)...)
		all := append(many(4), long("a"), long("b"), long("c"), "small")
		if p := h.poller(clusterPath, all...).poll(); p.answer.Code != http.StatusOK { // alone there is room for everything
			t.Errorf("the poll's status is %d", p.answer.Code)
		}
		h.limited(LimitREST, 1)
	}, limit)
}

// Answers of other content are others, and so are those with errors.
func TestRESTTexts_LIM3(t *testing.T) {
	restBubble(t, func(h *harness) {
		w := &h.server.polling.writing
		h.opaque.real(clusterType, "1", "a", "b")
		h.poller(clusterPath, "a", "b").poll()
		h.advance(restWait)
		texts := func(want int) {
			t.Helper()
			if n := len(w.texts); n != want {
				t.Errorf("%d texts are being written, want %d", n, want)
			}
		}
		first, readFirst := h.pollSlowly(clusterPath, "a")
		texts(1)
		h.pollSlowly(clusterPath, "b")
		texts(2)
		h.opaque.real(clusterType, "2", "a")
		second, read := h.pollSlowly(clusterPath, "a")
		texts(3)
		read()
		if !strings.Contains(second.Body.String(), `"2"`) {
			t.Errorf("the answer is %s", second.Body)
		}
		texts(2)
		for i := range 3 {
			h.pollSlowly(clusterPath, "b", fmt.Sprint("none", i))
		}
		readFirst()
		if !strings.Contains(first.Body.String(), `"1"`) {
			t.Errorf("the answer is %s", first.Body)
		}
	})
}

// aliasless may be told of no alias.
type aliasless struct{}

func (aliasless) ByName(string) bool                 { return true }
func (aliasless) Allows(use Use, _, _ string) bool   { return use != delivery.Alias }
func (aliasless) Forget(string, string)              {}
func (aliasless) Subscribes(string, string) error    { return nil }
func (aliasless) Differs(next Access, _ string) bool { return next != aliasless{} }

// Polls that get the same share one answer, too, where their clients' rules deny aliases of it: no client has
// copies of its own, of resources or of their JSON.
func TestRESTTextsWithoutAliases_LIM3_ACC3(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.router.access = aliasless{}
		resources := h.opaque.reals(clusterType, "1", "a", "b")
		for _, r := range resources {
			r.Aliases = []string{r.GetName() + "-alias", "another"}
		}
		h.opaque.put(clusterType, resources...)
		h.poller(clusterPath, "a", "b").poll()
		h.advance(restWait)
		var reads []func()
		var writers []*slowWriter
		for range 10 {
			p := h.poller(clusterPath, "a", "b")
			p.next.Node.ClientFeatures = []string{"xds.config.resource-in-sotw"}
			w, read := p.pollSlowly()
			writers, reads = append(writers, w), append(reads, read)
		}
		for _, texts := range h.server.polling.writing.texts {
			if len(texts) != 1 {
				t.Errorf("%d texts are being written, want one", len(texts))
			}
		}
		if n := h.server.polling.payloads.lru.Len(); n != len(resources) {
			t.Errorf("the JSON of %d resources is kept, want that of %d", n, len(resources))
		}
		for i, read := range reads {
			read()
			if got := writers[i].Body.String(); !strings.Contains(got, `"name":"b","version":"1"`) || strings.Contains(got, "alias") || strings.Contains(got, "another") {
				t.Errorf("a client is told %s", got)
			}
		}
	})
}

// A client has so many polls held at a time. A client is an address, an identity and a node: behind an address
// there may be a fleet.
func TestPollsPerClient_LIM1(t *testing.T) {
	restBubble(t, func(h *harness) {
		h.opaque.real(clusterType, "1", "a")
		held := make([]*restPoller, 0, 3)
		for range 2 {
			p := h.poller(clusterPath, "a")
			p.poll().accepts("200 a=1")
			p.poll().isHeld()
			held = append(held, p)
		}
		p := h.poller(clusterPath, "a").poll()
		p.refusedWith(http.StatusTooManyRequests, "this client has 2 polls held already (limits.polls_per_client)")
		if p.answer.Header().Get("Retry-After") == "" {
			t.Error("the client is not told when to come back")
		}
		h.limited(LimitPolls, 1)
		other := h.poller(clusterPath, "a")
		other.next.Node = node("another")
		other.poll().wants("200 a=1")
		h.opaque.real(clusterType, "2", "a")
		for _, p := range held {
			p.wants("200 a=2")
		}
		p.poll().wants("200 a=2")
		if n := len(h.server.polling.held); n != 0 {
			t.Errorf("%d clients have polls held", n)
		}
		h.limited(LimitPolls, 1)
	}, func(c *Config) { c.PerClient.PollsPerClient = 2 })
}
