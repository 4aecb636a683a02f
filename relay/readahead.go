package relay

import (
	"errors"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/directory"
)

var (
	errToItself = errors.New("the resource refers to itself")
	errTooFar   = errors.New("the chain of references is too long to follow")
)

// reading is what became of one directory.
type reading struct {
	prefetcher *prefetcher
	node       *node
	memberType string // type URL of what it may refer to, beside its own
	targets    []*node

	faults map[metrics.ReferenceFault]int
	first  error // the first fault
}

// read reads a resource, and replaces what its node refers to. What cannot be read, or
// leads nowhere, is left out, counted and logged; the rest is not lost with it.
func (p *prefetcher) read(n *node, r cache.Reference) {
	rd := &reading{prefetcher: p, node: n}
	rd.directory(r.Resource.Any())
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

// member notes the name of an entry that a directory has by locator. A name of another type
// than that of the resource or of its members clients will not ask for: it is among the faults.
func (rd *reading) member(e *directory.Entry) {
	if e.Inline() || !rd.prefetcher.enabled {
		return
	}
	n, err := keyer.Parse(e.Locator)
	if err != nil {
		return // cannot be: it is the name of a locator
	}
	typeURL := rd.node.key.typeURL
	if keyer.CheckType(n, typeURL) != nil {
		if typeURL = rd.memberType; keyer.CheckType(n, typeURL) != nil {
			return
		}
	}
	rd.seek(typeURL, n)
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
