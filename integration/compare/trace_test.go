package compare

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// sent has the resources, removals and errors that one client was sent in one step, one line each. Legal differences
// are left out:
//
//   - Nonces, sizes, the control plane's identifier, and times are left out. So are the bounds of responses, and how
//     often a resource came: a relay may cut and merge responses.
//   - Resources that a whole list of the state of the world repeats are left out, unless the list repeats all.
//     Resources that it lacks are removals, as the client takes it.
//   - Of the versions of a type as a whole (version_info, system_version_info) the last one counts.
//   - Of the order counts which type came first, changes and removals apart, where a change of several types came over
//     one stream each way.
//   - In errors numbers and addresses are left out.
type sent struct {
	lines    map[string]bool
	versions map[string]string // by type
	order    []string
}

// recorder is what one client is sent. Streams write, and the walk takes.
type recorder struct {
	form    form
	changed func() // something was sent

	mu     sync.Mutex
	now    sent
	marker int // that the client has
}

func newSent() sent { return sent{lines: make(map[string]bool), versions: make(map[string]string)} }

// note adds a line that does not come from a response.
func (r *recorder) note(format string, args ...any) {
	r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.lines[fmt.Sprintf(format, args...)] = true
}

func (r *recorder) marked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.marker
}

// response takes a response down.
func (r *recorder) response(resp *xdsclient.Response) {
	r.changed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if resp.TypeURL == plane.Runtime {
		r.markerLocked(resp)
		return
	}
	typed := short(resp.TypeURL)
	if resp.Err != nil {
		r.now.lines[typed+" is wrong: "+resp.Err.Error()] = true
	}
	r.now.versions[typed] = resp.SystemVersion
	repeats := r.form.state && slices.Contains(keyer.FullStateTypes(), resp.TypeURL) && resp.Count(xdsclient.Unchanged) < len(resp.Changes)
	for i := range resp.Changes {
		c := &resp.Changes[i]
		if c.Kind != xdsclient.Unchanged || !repeats {
			r.now.lines[typed+" "+lineOf(c)] = true
		}
		r.orderLocked(typed, c.Kind)
	}
}

// lineOf shows a change of one name.
func lineOf(c *xdsclient.Change) string {
	line := c.Name
	switch c.Kind {
	case xdsclient.Removed, xdsclient.Absent:
		return "- " + line
	case xdsclient.Failed:
		return "! " + line + " " + plain(fmt.Sprint(c.Error.Code, " ", c.Error.Message))
	case xdsclient.Added, xdsclient.Changed:
		line = "+ " + line
	case xdsclient.Unchanged:
		line = "= " + line
	case xdsclient.Heartbeat, xdsclient.Unrequested:
		line = c.Kind.String() + " " + line
	}
	line += " at " + c.Version
	if c.Resource != nil {
		line += " " + c.Resource.Digest()[:8] + " " + valueOf(c.Resource.Raw())
	}
	return line
}

// orderLocked keeps the first change and the first removal of a type.
func (r *recorder) orderLocked(typed string, k xdsclient.Kind) {
	what := ""
	switch k {
	case xdsclient.Added, xdsclient.Changed:
		what = "+" + typed
	case xdsclient.Removed:
		what = "-" + typed
	case xdsclient.Unchanged, xdsclient.Heartbeat, xdsclient.Absent, xdsclient.Failed, xdsclient.Unrequested:
		return
	}
	if !r.form.perType && !slices.Contains(r.now.order, what) {
		r.now.order = append(r.now.order, what)
	}
}

func (r *recorder) markerLocked(resp *xdsclient.Response) {
	for i := range resp.Changes {
		if x := resp.Changes[i].Resource; x != nil {
			if _, err := fmt.Sscanf(valueOf(x.Raw()), "v%d", &r.marker); err != nil {
				r.now.lines["a marker that cannot be read: "+err.Error()] = true
			}
		}
	}
}

// values finds the text of messageOf.
var values = regexp.MustCompile(`v[0-9]+ [a-z0-9 -]*`)

func valueOf(raw []byte) string { return strings.TrimSpace(string(values.Find(raw))) }

var numbers = regexp.MustCompile(`[0-9][0-9.:]*(ms|s)?`)

// plain leaves numbers out: ports, times and counts.
func plain(text string) string { return numbers.ReplaceAllString(text, "N") }

// take ends a step. ordered: the order counts.
func (r *recorder) take(ordered bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.now
	r.now = newSent()
	all := slices.Sorted(maps.Keys(s.lines))
	for _, typed := range slices.Sorted(maps.Keys(s.versions)) {
		all = append(all, typed+" at "+s.versions[typed])
	}
	for i, first := range s.order {
		for _, then := range s.order[i+1:] {
			if ordered && first[1:] != then[1:] {
				all = append(all, first+" before "+then)
			}
		}
	}
	return all
}

// trace has the lines of one play, by step and client.
type trace [][clients][]string

// finding is a line that a client is sent by one build in each play and by the other in none.
type finding struct {
	step, client int
	sign         string // "-": by the old build, "+": by the new one
	line         string
}

// findings compares plays of the same walk. A line that comes by chance is no finding.
func findings(olds, news []trace) []finding {
	var all []finding
	for step := range olds[0] {
		for c := range clients {
			for _, line := range onlyIn(olds, news, step, c) {
				all = append(all, finding{step, c, "-", line})
			}
			for _, line := range onlyIn(news, olds, step, c) {
				all = append(all, finding{step, c, "+", line})
			}
		}
	}
	return all
}

// onlyIn are the lines that each of some plays has and none of the others.
func onlyIn(plays, others []trace, step, client int) []string {
	has := func(line string) func(trace) bool {
		return func(t trace) bool { return slices.Contains(t[step][client], line) }
	}
	var all []string
	for _, line := range plays[0][step][client] {
		lacks := func(t trace) bool { return !has(line)(t) }
		if !slices.ContainsFunc(plays, lacks) && !slices.ContainsFunc(others, has(line)) {
			all = append(all, line)
		}
	}
	return all
}

// report shows the first step that has findings, the steps before it, and all lines of that step in the last play of
// each build.
func report(w *walk, all []finding, older, newer trace) string {
	var text strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&text, format+"\n", args...) } // a strings.Builder takes all
	step := all[0].step
	say("seed %d differs from step %d on: %s", w.seed, step, w)
	for n, s := range w.steps[:step+1] {
		say("  step %d: %s", n, s)
	}
	for _, f := range all {
		if f.step == step {
			say("  %s client %d: %s", f.sign, f.client, f.line)
		}
	}
	say("The old build sent in step %d:\n%s", step, linesOf(older[step]))
	say("The new build:\n%s", linesOf(newer[step]))
	return text.String()
}

func linesOf(now [clients][]string) string {
	var all []string
	for c, lines := range now {
		for _, line := range lines {
			all = append(all, fmt.Sprintf("    client %d: %s", c, line))
		}
	}
	return strings.Join(all, "\n")
}

// history shows a whole play.
func history(w *walk, t trace) string {
	all := []string{fmt.Sprintf("seed %d: %s", w.seed, w)}
	for i, now := range t {
		all = append(all, fmt.Sprintf("step %d: %s", i, w.steps[i]))
		if lines := linesOf(now); lines != "" {
			all = append(all, lines)
		}
	}
	return strings.Join(all, "\n")
}

func TestFindings(t *testing.T) {
	t.Parallel()
	play := func(lines ...string) trace { return trace{{nil, lines, nil}} }
	for _, c := range []struct {
		name       string
		olds, news []trace
		want       []finding
	}{
		{"equal", []trace{play("a", "b")}, []trace{play("a", "b")}, nil},
		{"each has a line of its own", []trace{play("a", "b")}, []trace{play("b", "c")}, []finding{{0, 1, "-", "a"}, {0, 1, "+", "c"}}},
		{"one is sent it now and then", []trace{play("a"), play()}, []trace{play(), play()}, nil},
		{"both do either", []trace{play("a"), play("b")}, []trace{play("b"), play("a")}, nil},
		{"never again", []trace{play("a", "b"), play("a")}, []trace{play("b"), play("b")}, []finding{{0, 1, "-", "a"}}},
	} {
		if got := findings(c.olds, c.news); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, not %v", c.name, got, c.want)
		}
	}
}
