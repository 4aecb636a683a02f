package envoy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// passScenarios are those that are the same directly and at a relay. Nothing in them asks what only one of the two does, and
// the control plane lives, and says the same in each play: versions of go-control-plane, heartbeats, and what changes while an
// Envoy starts depend on time.
func passScenarios() []scenario {
	others := []string{"the control plane is dead, a second server lives", "ttl, renewed by heartbeats", "ttl, renewed by whole lists", "runtime"}
	return slices.DeleteFunc(allScenarios(), func(s scenario) bool {
		return s.only != "" || s.goCP || s.mutual || s.pipe || slices.Contains(others, s.name)
	})
}

// passForms are the forms of streams: polls are not served 1:1.
func passForms() []form { return []form{deltaADS, stateADS, deltaPerType, statePerType} }

// takeLong are scenarios for which CI has no time.
func takeLong() []string {
	return []string{
		"changed cluster, ordinary control plane", "names that the control plane never answers", "the server restarts, contents change right after",
		"clusters on demand", "ttl runs out while the server is away", "a control plane that knows only the legacy wildcard",
		"clusters become refused, streams break, clusters change", "clusters become invalid, streams break, clusters change",
		"a cluster warms for ever, streams break, clusters change",
	}
}

// TestPassthrough_SameAsDirect plays scenarios directly and at a relay that serves everything 1:1, by one command. What
// Envoys get is the same then, byte for byte and in order, with the control plane's versions and nonces. At the relay each
// stream is the same on both of its sides, requests too.
func TestPassthrough_SameAsDirect(t *testing.T) {
	binary(t)
	for _, s := range passScenarios() {
		inCI := !s.alone && !slices.Contains(takeLong(), s.name)
		for i, f := range s.forms {
			streams := slices.ContainsFunc(passForms(), func(g form) bool { return g.name == f.name })
			if !streams || !soaking() && (!inCI || i > 0) {
				continue
			}
			t.Run(s.name+"/"+f.name, func(t *testing.T) {
				if !s.alone {
					t.Parallel()
				}
				sameAsDirect(t, s, f)
			})
		}
	}
}

// tries is how often both are played at most: at which moment a test changes something, and a machine lets an Envoy ask
// for something, decides what one response has and what the next one has.
const tries = 6

// sameAsDirect plays until a play at the relay is like one that was played directly.
func sameAsDirect(t *testing.T, s scenario, f form) {
	t.Helper()
	begin := time.Now()
	plays := make(map[side][]map[string][]*conversation)
	s.same = &same{t: t, given: make(map[string]any)}
	for try := range tries {
		for _, at := range []side{direct, passed} {
			var faults string
			t.Run(fmt.Sprint(at, " ", try+1), func(t *testing.T) { faults = s.same.play(t, &s, f, at) })
			if t.Failed() {
				return
			}
			if at == passed {
				bothSides(t, s.same.streams("plane"), s.same.streams("envoys"))
			}
			if faults != "" && knownFault(s.name, f.name, at) == nil {
				t.Logf("%s: this play does not count: %s", at, faults) // another test judges it
				continue
			}
			plays[at] = append(plays[at], byClient(s.same.streams("envoys")))
		}
		for _, at := range plays[direct] {
			for _, through := range plays[passed] {
				different := difference(at, through)
				if different == "" && len(through) > 0 {
					report(t, &s, f, passed, outcome{notes: said(through), took: time.Since(begin)})
					return
				}
				t.Logf("try %d: %s", try+1, different)
			}
		}
	}
	t.Error("no play at the relay was like one directly")
}

// same is what the plays of a scenario have in common.
type same struct {
	t     *testing.T
	given map[string]any       // what differs between two runs of a program, such as ports
	lines map[string]*lifeline // of the last play: to the control plane, and where Envoys connect
}

// once has all plays that are compared use what the first one made, which lasts as long as owner.
func once[T any](w *world, key string, of func() T) T {
	if w.same == nil {
		return of()
	}
	if v, ok := w.same.given[key]; ok {
		return v.(T)
	}
	v := of()
	w.same.given[key] = v
	return v
}

// owner is the test that has the play, or all plays that are compared.
func (w *world) owner() *testing.T {
	if w.same != nil {
		return w.same.t
	}
	return w.t
}

// play plays once, with lines on which everything is recorded, and gives what was wrong.
func (x *same) play(t *testing.T, s *scenario, f form, at side) (faults string) {
	t.Helper()
	w := newWorld(t, s, f, at)
	w.run(func() { s.play(w) })
	w.quiet()
	faults, _ = w.result()
	return faults
}

// record puts a line before the server that Envoys connect to: the control plane or a relay that serves them 1:1.
func (w *world) record(s *scenario, at side) {
	w.t.Helper()
	w.same.lines = make(map[string]*lifeline)
	if at == passed {
		toPlane := newLifeline(w.t, w.addr)
		r := startRelay(w.t, w.form.up, toPlane.addr, false, func(c *config.Config) { w.settings(s, c) })
		r.passAll()
		w.addr, w.same.lines["plane"] = r.addr, toPlane
	}
	toServer := newLifeline(w.t, w.addr)
	w.addr, w.same.lines["envoys"] = toServer.addr, toServer
}

// passAll has the relay serve all streams 1:1, by the command for it.
func (r *relayProcess) passAll() {
	r.t.Helper()
	resp, err := http.Post("http://"+r.admin+"/passthrough/on", "application/json", strings.NewReader("{}"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var done admin.Done
	if err := json.NewDecoder(resp.Body).Decode(&done); err != nil || resp.StatusCode != http.StatusOK || done.Nothing {
		r.t.Fatalf("%s, %+v, %v", resp.Status, done, err)
	}
}

// quiet waits until nothing more is said.
func (w *world) quiet() {
	said := func() int { return len(w.plane.Requests("")) + len(w.plane.Responses("")) }
	wait.Until(soon, func() bool {
		n := said()
		_, quiet := wait.Holds(500*time.Millisecond, func() bool { return said() == n })
		return quiet
	})
}

// conversation is what was said on one gRPC stream: messages as they were sent, with the head of each.
type conversation struct {
	method, node        string
	names               []string // of the first request
	requests, responses [][]byte
	last                bool // of the node, with the method: nothing cut it off before the play ended
}

// streams reads what passed over a line, stream for stream in the order of their beginnings.
func (x *same) streams(line string) (all []*conversation) {
	x.t.Helper()
	for _, c := range x.lines[line].tapes {
		streams := make(map[uint32]*conversation)
		raw := make(map[uint32]*[2]bytes.Buffer)
		request, _ := bytes.CutPrefix(c.requests.Bytes(), []byte(http2.ClientPreface))
		for i, side := range [][]byte{request, c.responses.Bytes()} {
			f := http2.NewFramer(nil, bytes.NewReader(side))
			f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			for {
				frame, err := f.ReadFrame()
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the connection was cut
					break
				}
				if err != nil {
					x.t.Fatal(err)
				}
				switch frame := frame.(type) {
				case *http2.MetaHeadersFrame:
					if i == 0 && streams[frame.StreamID] == nil {
						streams[frame.StreamID], raw[frame.StreamID] = &conversation{method: frame.PseudoValue("path")}, new([2]bytes.Buffer)
						all = append(all, streams[frame.StreamID])
					}
				case *http2.DataFrame:
					raw[frame.StreamID][i].Write(frame.Data())
				}
			}
		}
		for id, s := range streams {
			s.requests, s.responses = messages(raw[id][0].Bytes()), messages(raw[id][1].Bytes())
			s.present()
		}
	}
	last := make(map[string]*conversation)
	for _, c := range all {
		last[c.node+" "+c.method] = c
	}
	for _, c := range last {
		c.last = true
	}
	return all
}

// head is the size of what is in front of a message: whether it is compressed, and its length.
const head = 5

// messages splits what a stream carries. A message that was cut is none.
func messages(b []byte) (all [][]byte) {
	for len(b) >= head {
		n := head + int(b[1])<<24 + int(b[2])<<16 + int(b[3])<<8 + int(b[4])
		if len(b) < n {
			return all
		}
		all, b = append(all, b[:n]), b[n:]
	}
	return all
}

// present finds the node and the names of the first request, unless that was cut.
func (c *conversation) present() {
	if len(c.requests) == 0 {
		return
	}
	first := c.requests[0][head:]
	delta, state := new(discoveryv3.DeltaDiscoveryRequest), new(discoveryv3.DiscoveryRequest)
	if strings.Contains(c.method, "/Delta") && proto.Unmarshal(first, delta) == nil {
		c.node, c.names = delta.GetNode().GetId(), delta.GetResourceNamesSubscribe()
	} else if proto.Unmarshal(first, state) == nil {
		c.node, c.names = state.GetNode().GetId(), state.GetResourceNames()
	}
	slices.Sort(c.names)
}

// byClient has the conversations in which something was answered, by their clients, methods and first names: an Envoy with
// a stream for each type has one for each cluster's endpoints.
func byClient(all []*conversation) map[string][]*conversation {
	of := make(map[string][]*conversation)
	for _, c := range all {
		if len(c.responses) > 0 {
			key := fmt.Sprint(c.node, " ", c.method, c.names)
			of[key] = append(of[key], c)
		}
	}
	return of
}

// begins reports whether messages are the first ones of others, and all of them if whole is set.
func begins(all, first [][]byte, whole bool) bool {
	return len(first) <= len(all) && (!whole || len(first) == len(all)) && slices.EqualFunc(first, all[:len(first)], bytes.Equal)
}

// bothSides compares both sides of the relay. Only of a stream that ended before the play did something may be lost.
func bothSides(t *testing.T, plane, envoys []*conversation) {
	t.Helper()
	for _, c := range envoys {
		if len(c.responses) == 0 {
			continue // the control plane was away
		}
		i := slices.IndexFunc(plane, func(p *conversation) bool {
			return p.method == c.method && begins(c.requests, p.requests, c.last) && begins(p.responses, c.responses, c.last)
		})
		if i < 0 {
			t.Errorf("%s: no stream at the control plane has the %d requests and %d responses of the stream of %s", c.method, len(c.requests), len(c.responses), c.node)
			continue
		}
		plane = slices.Delete(plane, i, i+1)
	}
}

// difference says what two plays gave otherwise; "": nothing.
func difference(at, through map[string][]*conversation) string {
	for key, was := range at {
		is := through[key]
		if len(was) != len(is) {
			return fmt.Sprintf("%s: %d streams directly, %d at the relay", key, len(was), len(is))
		}
		for i := range was {
			d, r := was[i].responses, is[i].responses
			if was[i].last && is[i].last && len(d) != len(r) {
				return fmt.Sprintf("%s: %d responses directly, %d at the relay", key, len(d), len(r))
			}
			if !begins(d, r, false) && !begins(r, d, false) { // what the end of a stream cut off
				return fmt.Sprintf("%s: stream %d of %d has other responses", key, i+1, len(was))
			}
		}
	}
	if len(through) > len(at) {
		return fmt.Sprintf("%d streams directly, %d at the relay", len(at), len(through))
	}
	return ""
}

// said counts what was said.
func said(all map[string][]*conversation) string {
	streams, responses, size := 0, 0, 0
	for _, of := range all {
		for _, c := range of {
			streams++
			responses += len(c.responses)
			for _, m := range c.responses {
				size += len(m)
			}
		}
	}
	return fmt.Sprintf("%d streams, %d responses with %d bytes", streams, responses, size)
}
