package downstream

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What Envoy asks for, in its order, and what it is answered. Each line of a file is
//
//	open sotw                            a stream of that form is opened; one before it ends
//	= CDS c1@1 c2@1                      the control plane has these at these versions
//	- CDS c2                             the control plane removes it
//	settle                               the quiet time of collections passes
//	> CDS names=[] version="" nonce=""   a request
//	< CDS c1@1 version="v1" nonce="1"    a response to what stands before it
//
// No other responses come. What a response calls a version of a type first is v1, then
// v2: the same for the same contents.
func TestEnvoy(t *testing.T) {
	tests := map[string]string{
		"WARM-1 STR-7 SotW, a start":                                       "sotw-start",
		"WARM-1 STR-7 SotW, a changed cluster":                             "sotw-changed-cluster",
		"WARM-1 STR-7 SotW, a changed listener":                            "sotw-changed-listener",
		"WARM-2 ACK-5 SotW, a reconnect":                                   "sotw-reconnect",
		"WARM-1 SUB-5 STR-7 SotW, an added cluster":                        "sotw-added-cluster",
		"STR-7 RES-2 SotW, a removed cluster":                              "sotw-removed-cluster",
		"SUB-3 STR-7 incremental, a start":                                 "delta-start",
		"WARM-1 SUB-6 STR-7 incremental, a changed cluster and a listener": "delta-warming",
		"SUB-5 SUB-8 incremental, clusters come and go":                    "delta-clusters-come-and-go",
		"RES-11 WARM-1 SUB-6 incremental, a reconnect":                     "delta-reconnect",
	}
	for name, file := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", "envoy", file+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			bubble(t, func(h *harness) { replay(h, string(b)) })
		})
	}
	files, err := filepath.Glob("testdata/envoy/*.txt")
	if err != nil || len(files) != len(tests) {
		t.Errorf("%d recordings are replayed, there are %v (%v)", len(tests), files, err)
	}
}

// replay does what a recording says, and holds what comes to it.
func replay(h *harness, text string) {
	h.Helper()
	r := &replayed{h: h, versions: map[string][]string{}, nonces: map[string]string{}}
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#")
	})
	for len(lines) > 0 {
		step := lines[0]
		lines = lines[1:]
		r.do(step)
		n := slices.IndexFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "< ") })
		if n < 0 {
			n = len(lines)
		}
		if got := r.came(); !slices.Equal(got, lines[:n]) {
			h.Fatalf("after %q came\n\t%s\nwant\n\t%s", step, strings.Join(got, "\n\t"), strings.Join(lines[:n], "\n\t"))
		}
		lines = lines[n:]
	}
}

// replayed is a recording that is being replayed, on a stream of either form.
type replayed struct {
	h        *harness
	state    *stateClient
	delta    *client
	versions map[string][]string // by type, in the order in which they came
	nonces   map[string]string   // by number
}

// The recordings' names of types.
var envoyTypes = map[string]string{"CDS": clusterType, "EDS": endpointType, "LDS": listenerType, "RDS": routeType}

// shortType is the recordings' name of a type.
func shortType(typeURL string) string {
	for short, t := range envoyTypes {
		if t == typeURL {
			return short
		}
	}
	return typeURL
}

// do takes one step.
func (r *replayed) do(step string) {
	r.h.Helper()
	words := strings.Fields(step)
	switch words[0] {
	case "open":
		r.open(words[1] == "sotw")
	case "settle":
		r.h.opaque.settle()
	case "=":
		for _, word := range words[2:] {
			name, version, _ := strings.Cut(word, "@")
			r.h.opaque.set(envoyTypes[words[1]], version, name)
		}
	case "-":
		r.h.opaque.unset(envoyTypes[words[1]], words[2:]...)
	case ">":
		r.ask(words[1], fieldsOf(step))
	default:
		r.h.Fatalf("the step %q means nothing", step)
	}
}

func (r *replayed) open(state bool) {
	r.h.Helper()
	if r.state != nil {
		r.state.cancel()
	}
	if r.delta != nil {
		r.delta.cancel()
	}
	r.state, r.delta = nil, nil
	r.h.quiet()
	if state {
		r.state = r.h.stateOn(adsStream, false)
	} else {
		r.delta = r.h.slowClient()
	}
}

var field = regexp.MustCompile(`(\w+)=(?:\[(.*?)\]|"(.*?)")`)

// fieldsOf reads key="value" and key=[a list].
func fieldsOf(step string) map[string][]string {
	fields := map[string][]string{}
	for _, m := range field.FindAllStringSubmatch(step, -1) {
		fields[m[1]] = strings.Fields(m[2] + m[3])
	}
	return fields
}

// ask sends a request.
func (r *replayed) ask(short string, fields map[string][]string) {
	r.h.Helper()
	nonce := r.nonces[strings.Join(fields["nonce"], "")]
	if r.state != nil {
		r.state.send(&stateRequestMsg{
			TypeUrl: envoyTypes[short], ResourceNames: fields["names"], ResponseNonce: nonce,
			VersionInfo: r.version(short, strings.Join(fields["version"], "")),
		})
		return
	}
	held := map[string]string{}
	for _, word := range fields["versions"] {
		name, version, _ := strings.Cut(word, "=")
		held[name] = version
	}
	r.delta.send(&request{
		TypeUrl: envoyTypes[short], ResponseNonce: nonce, InitialResourceVersions: held,
		ResourceNamesSubscribe: fields["subscribe"], ResourceNamesUnsubscribe: fields["unsubscribe"],
	})
}

// numbered is what a recording calls a nonce: the response's number.
func (r *replayed) numbered(nonce string) string {
	number := nonce[markLen:]
	r.nonces[number] = nonce
	return number
}

// version is what the server calls what the recording calls v1, v2 and so on.
func (r *replayed) version(short, name string) string {
	r.h.Helper()
	if name == "" {
		return ""
	}
	i, err := strconv.Atoi(strings.TrimPrefix(name, "v"))
	if err != nil || i < 1 || i > len(r.versions[short]) {
		r.h.Fatalf("%s has no version %q yet", short, name)
	}
	return r.versions[short][i-1]
}

// came writes what came since the step before as a recording does.
func (r *replayed) came() []string {
	r.h.Helper()
	r.h.quiet()
	var lines []string
	if r.state != nil {
		for _, resp := range r.state.take() {
			_, contents, _ := strings.Cut(r.state.tell(resp), " ")
			short := shortType(resp.TypeUrl)
			lines = append(lines, "< "+short+" "+contents+" version="+strconv.Quote(r.named(short, resp.VersionInfo))+" nonce="+strconv.Quote(r.numbered(resp.Nonce)))
		}
	}
	if r.delta != nil {
		for _, resp := range r.delta.take() {
			_, contents, _ := strings.Cut(tell(resp), " ")
			lines = append(lines, "< "+shortType(resp.TypeUrl)+" "+contents+" nonce="+strconv.Quote(r.numbered(resp.Nonce)))
		}
	}
	return lines
}

// named is the recording's name of a version.
func (r *replayed) named(short, version string) string {
	i := slices.Index(r.versions[short], version)
	if i < 0 {
		i = len(r.versions[short])
		r.versions[short] = append(r.versions[short], version)
	}
	return "v" + strconv.Itoa(i+1)
}
