package relay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// orders are what operators want held (GATE-4). They are about stores that there are, and about those
// that come later. With cache.dir they are on the disk before they are carried out.
type orders struct {
	secrets *payload.Secrets // immutable; no order is about them

	mu    sync.Mutex // held over a change
	force atomic.Pointer[hold.Orders]
}

// now are the orders in force.
func (o *orders) now() hold.Orders {
	if all := o.force.Load(); all != nil {
		return *all
	}
	return nil
}

// of says what the orders are for the store of a session. Secrets are never frozen: one that is revoked
// must go, and one that runs out must be replaced. Names that the relay resolves by itself come from
// other stores.
func (o *orders) of(key sessionKey) cache.Freezing {
	if o == nil || key.resolved {
		return nil
	}
	return func(typeURL string, now time.Time) hold.Freeze {
		all := o.now()
		if len(all) == 0 || o.secrets.Has(typeURL) {
			return hold.Freeze{}
		}
		return all.Of(key.plane, key.scope, typeURL, xds.RankOf(typeURL) == xds.RankEndpoint, now)
	}
}

// frozen are the orders that freeze something now.
func (o *orders) frozen(now time.Time) (all []hold.Order) {
	for _, x := range o.now() {
		if x.Frozen && x.On(now) {
			all = append(all, x)
		}
	}
	return all
}

// ordersFile is the file of the orders.
type ordersFile struct {
	Version int         `json:"version"`
	Orders  hold.Orders `json:"orders"`
}

// ordersVersion is the version of the file. Another version is not used.
const ordersVersion = 1

func encodeOrders(all hold.Orders) ([]byte, error) {
	return json.MarshalIndent(ordersFile{ordersVersion, append(hold.Orders{}, all...)}, "", "  ") // [] if there are none
}

func decodeOrders(data []byte) (hold.Orders, error) {
	var f ordersFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Version != ordersVersion {
		return nil, fmt.Errorf("version %d: this relay knows %d", f.Version, ordersVersion)
	}
	if slices.ContainsFunc(f.Orders, func(x hold.Order) bool { return x.Frozen && x.Since.IsZero() }) {
		return nil, errors.New("an order without a time")
	}
	return f.Orders, nil
}

// restoreOrders reads the orders of an earlier process. A file that cannot be read stays where it is:
// the relay begins without it, and the next order replaces it.
func (s *snapshots) restoreOrders(o *orders) {
	if s == nil {
		return
	}
	data, err := s.folder.LoadOrders()
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var all hold.Orders
	if err == nil {
		all, err = decodeOrders(data)
	}
	if err != nil {
		s.log.Error("the orders of operators cannot be read: what they held is not held", "error", err)
		return
	}
	o.force.Store(&all)
	for _, x := range o.frozen(time.Now()) {
		s.log.Warn("by an operator's order the relay holds back what control planes send", logSelector(&x.Selector, "since", x.Since, "until", x.Until)...)
	}
}

// errNoDisk is that orders end with the process.
var errNoDisk = errors.New("cache.dir is not set: a restart of the relay ends the hold")

// saveOrders writes the orders.
func (s *snapshots) saveOrders(all hold.Orders) error {
	if s == nil {
		return errNoDisk
	}
	data, err := encodeOrders(all)
	if err != nil {
		return err
	}
	return s.folder.SaveOrders(data)
}

// logSelector names the tables that a selector is about, in a line of the log.
func logSelector(s *hold.Selector, more ...any) []any {
	all := []any{"upstream", cmp.Or(s.Upstream, "all"), "scope", admin.ScopeText(s.Scope), "type", cmp.Or(s.Type, "all")}
	return append(all, more...)
}
