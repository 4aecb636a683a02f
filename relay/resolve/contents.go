package resolve

import (
	"fmt"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/relay/directory"
)

const typePrefix = "type.googleapis.com/"

// contents are the inline entries of a lead's payload, read when one is first asked
// for (LIST-4).
type contents struct {
	isRead  bool
	err     error
	entries map[string]*directory.Entry
	made    map[string]*wire.Resource // of entries that were asked for
}

// entryDirective stands between the name of a directory and that of an entry.
const entryDirective = "#entry="

// entry gives an inline entry of the directory that the lead holds, nil if it has none
// of that name. Its name is that of the directory with the entry: access rules judge what an
// alternative leads to (ACC-3). A directory is read once, however many of its entries are wanted.
// The error says what is wrong with it.
func (l *lead) entry(name string) (*wire.Resource, error) {
	c := &l.read
	if !c.isRead {
		c.isRead = true
		c.entries, c.err = entriesOf(l.res)
	}
	e := c.entries[name]
	if c.err != nil || e == nil {
		return nil, c.err
	}
	made := c.made[name]
	if made == nil {
		var err error
		if made, err = wire.NewPayload(l.key+entryDirective+e.Name, e.Version, e.Any, l.res.DoNotCache); err != nil {
			return nil, fmt.Errorf("entry %q: %w", name, err)
		}
		if l.res.Restored() {
			made = made.AsRestored()
		}
		if c.made == nil {
			c.made = make(map[string]*wire.Resource)
		}
		c.made[name] = made
	}
	return made, nil
}

// entriesOf reads the inline entries that have a name; of those that have the same one
// the first counts.
func entriesOf(r *wire.Resource) (map[string]*directory.Entry, error) {
	d, err := directory.Read(r.Any())
	if err != nil {
		return nil, err
	}
	entries := make(map[string]*directory.Entry)
	for i := range d.Entries {
		if e := &d.Entries[i]; e.Inline() && e.Name != "" && entries[e.Name] == nil {
			entries[e.Name] = e
		}
	}
	return entries, nil
}
