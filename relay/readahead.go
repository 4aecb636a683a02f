package relay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/directory"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/metrics"
)

var (
	errToItself = errors.New("the resource refers to itself")
	errTooFar   = errors.New("the chain of references is too long to follow")
)

// reading is what became of one resource that refers to others.
type reading struct {
	prefetcher *prefetcher
	node       *node
	memberType string // type URL of what it may refer to, if not its own
	targets    []*node

	faults map[metrics.ReferenceFault]int
	first  error // the first fault
}

// read reads a resource, and replaces what its node refers to. What cannot be read, or
// leads nowhere, is left out, counted and logged; the rest is not lost with it.
func (p *prefetcher) read(n *node, r cache.Reference) {
	rd := &reading{prefetcher: p, node: n}
	if r.Resource.TypeURL() == directory.RedirectType {
		n.versions = nil
		rd.redirect(r.Resource.Any())
	} else {
		rd.directory(r.Resource.Any())
	}
	p.graph.refer(n, rd.targets)
	p.complain(n, rd.faults, rd.first)
}

func (rd *reading) fault(f metrics.ReferenceFault, err error) {
	if rd.faults == nil {
		rd.faults = make(map[metrics.ReferenceFault]int)
		rd.first = err
	}
	rd.faults[f]++
}

// redirect reads where a resource leads that is elsewhere (LOC-1): to one of its own
// type.
func (rd *reading) redirect(packed []byte) {
	name, err := directory.Redirect(packed)
	if err != nil {
		rd.fault(metrics.FaultUnreadable, err)
		return
	}
	if from := rd.node.key.name; keyer.IsXDSTP(from) {
		if err := sameResourceType(from, name); err != nil {
			rd.fault(metrics.FaultType, err)
			return
		}
	}
	if err := rd.lead(name); err != nil {
		rd.fault(metrics.FaultType, err)
	}
}

func sameResourceType(from, to string) error {
	// A member of a glob with an alternative has a key that is no name by itself.
	if keyer.GlobOf(from) != "" {
		from, _, _ = strings.Cut(from, "#")
	}
	a, err := keyer.Parse(from)
	if err != nil {
		return err
	}
	b, err := keyer.Parse(to)
	if err != nil {
		return err
	}
	if a.ResourceType() != b.ResourceType() {
		return fmt.Errorf("a %.256q refers to a %.256q", a.ResourceType(), b.ResourceType())
	}
	return nil
}

// directory reads the members of a list collection (LIST-2), and what is wrong with
// them (LIST-4).
func (rd *reading) directory(packed []byte) {
	d, err := directory.Read(packed)
	if err != nil {
		rd.fault(metrics.FaultUnreadable, err)
		rd.node.versions = nil
		return
	}
	rd.memberType = d.MemberType
	rd.judge(d)
	versions := d.Versions()
	for _, c := range versions.Conflicts(rd.node.versions) {
		rd.fault(metrics.FaultConflict, c)
	}
	rd.node.versions = versions
	for i := range d.Entries {
		rd.member(&d.Entries[i])
	}
}

// judge takes over what is wrong with the entries.
func (rd *reading) judge(d *directory.Directory) {
	if len(d.Faults) == 0 {
		return
	}
	rd.first, rd.faults = d.Faults[0], make(map[metrics.ReferenceFault]int)
	for kind, n := range d.Counts {
		switch kind {
		case directory.Unreadable:
			rd.faults[metrics.FaultUnreadable] += n
		case directory.WrongType:
			rd.faults[metrics.FaultType] += n
		case directory.Duplicate:
			rd.faults[metrics.FaultDuplicate] += n
		}
	}
}

// member notes where an entry of a directory leads.
func (rd *reading) member(e *directory.Entry) {
	name := e.Locator
	if e.Inline() {
		if e.TypeURL != directory.RedirectType {
			return
		}
		var err error
		if name, err = directory.Redirect(e.Any); err != nil {
			rd.fault(metrics.FaultUnreadable, fmt.Errorf("resources[%d]: %w", e.Number, err))
			return
		}
	}
	if err := rd.lead(name); err != nil && e.Inline() { // a locator's is among the faults
		rd.fault(metrics.FaultType, fmt.Errorf("resources[%d]: %w", e.Number, err))
	}
}

// lead notes a name that the resource leads to. The error is that it is of another
// type than clients will ask for: that of the resource or, in a directory, of its members.
func (rd *reading) lead(name string) error {
	n, err := keyer.Parse(name)
	if err != nil {
		return err // cannot be: it is the name of a locator
	}
	typeURL := rd.node.key.typeURL
	if err := keyer.CheckType(n, typeURL); err != nil {
		if typeURL = rd.memberType; typeURL == "" || keyer.CheckType(n, typeURL) != nil {
			return err
		}
	}
	if rd.prefetcher.enabled {
		rd.seek(typeURL, n)
	}
	return nil
}

// seek has a name fetched ahead.
func (rd *reading) seek(typeURL string, n keyer.Name) {
	switch t, err := rd.prefetcher.target(typeURL, n); {
	case errors.Is(err, errClosed), errors.Is(err, downstream.ErrNoMemory), errors.Is(err, errForwarding):
	case errors.Is(err, errNoUpstream):
		rd.fault(metrics.FaultAuthority, err)
	case err != nil:
		rd.fault(metrics.FaultUnavailable, err)
	case t != rd.node:
		rd.targets = append(rd.targets, t)
	case n.Entry() == "": // else it is one of the resource's own
		rd.fault(metrics.FaultChain, errToItself)
	}
}
