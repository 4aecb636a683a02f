package delivery

import (
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Judge says what one client may be sent (ACC-2). The client's stream or poll alone calls it.
type Judge interface {
	// ByName reports whether there may be names of a type that the client may not be sent. If
	// not, no name is judged.
	ByName(typeURL string) bool
	// Allows reports whether the client may be sent what has a name.
	Allows(use Use, typeURL, name string) bool
}

// Use is what a Judge is asked for.
type Use uint8

// The uses.
const (
	Content Use = iota // a resource goes into a response
	Word               // the client is told that a collection has a member, or lost it
	Version            // a version tells of a resource
	Alias              // a resource says that it has this name, too
)

// screen judges what goes to a client whose access rules look at the names of a type (ACC-3). A
// type subscription without one pays nothing.
//
// The client could only subscribe to what it may have. The screen is for what comes without being
// named: members of collections, what serves an alias, and where alternatives lead.
// To the client none of this exists if it may not have it: it is not in lists and versions, its
// changes send nothing, and a name that leads there does not exist.
type screen struct {
	judge   Judge
	typeURL string
	// byOthers are the members that the client has and that another resource serves: an alternative may
	// have one that the client may not have next.
	byOthers map[string]bool
	// concealed are the members that another resource serves, which the client may not have: it
	// was not sent them.
	concealed map[string]bool
	// served has the names of the resources that the client was sent for aliases, by alias.
	served map[string]string
}

// serves records under which name the client was sent what an alias stands for.
func (g *screen) serves(alias, name string) {
	if g == nil || name == alias {
		return
	}
	if g.served == nil {
		g.served = make(map[string]string)
	}
	g.served[strings.Clone(alias)] = strings.Clone(name) // it may lie in bytes that go
}

// hadServed gives the name under which the client has what an alias stood for, and forgets it.
func (g *screen) hadServed(alias string) string {
	if g == nil {
		return ""
	}
	name := g.served[alias]
	delete(g.served, alias)
	return name
}

// allows judges a resource under the client's name for it and under its own, which is another one
// if an alias or an alternative led to it.
func (g *screen) allows(use Use, name, served string) bool {
	if !g.judge.Allows(use, g.typeURL, name) {
		return false
	}
	return served == name || g.judge.Allows(use, g.typeURL, served)
}

// withheld lists the aliases of a resource that the client may not have. A stream is sent a copy without
// them, of its own: few types have aliases, and a client that may have a resource may have most of its names.
func (g *screen) withheld(r *wire.Resource) (aliases []string) {
	for _, alias := range r.Aliases() {
		if !g.judge.Allows(Alias, g.typeURL, alias) {
			aliases = append(aliases, alias)
		}
	}
	return aliases
}

// serveByOther records that the client is sent what another resource serves.
func (g *screen) serveByOther(name, served string) {
	delete(g.concealed, name)
	if served == name {
		return
	}
	if g.byOthers == nil {
		g.byOthers = make(map[string]bool)
	}
	g.byOthers[strings.Clone(name)] = true // it may lie in bytes that go
}

// conceal records that the client was not sent a member that another resource serves.
func (g *screen) conceal(name string) {
	if g.concealed == nil {
		g.concealed = make(map[string]bool)
	}
	g.concealed[strings.Clone(name)] = true // it may lie in bytes that go
}
