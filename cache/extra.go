package cache

import (
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// extras are the rarely used fields of an entry. Most entries have none of them, and share noExtra.
type extras struct{ *extra }

// extra is the rarely used fields of an entry.
type extra struct {
	spelled  string // as the server spells it; "" for like its key
	err      *wire.ResourceError
	life     *Lifetime      // nil: it never had a ttl; kept by tombstones of what expired
	sum      digest.Sum     // its part of the sums, if the table keeps them
	retained *wire.Resource // of a tombstone: its content before, while lists may hold it (ADS-1)
	back     comeback       // of a cluster that was a tombstone before

	absence  *Absence // why it is absent; nil for most
	audience Audience // the clients' subscriptions to it by name; nil for none
	demand   *demand  // its own upstream subscription; nil if a collection brings it
}

// comeback is when a cluster was removed that is there again, and when it came. Clients that were
// told of the removal wait for its endpoints as for those of a new cluster.
type comeback struct{ removed, came uint64 }

// Absence is why a name stands for nothing.
type Absence struct {
	// answer is the server's, as it came, nil if there is none. It may be the answer for
	// other names, too. asked is when the server was asked last, or answered.
	answer *wire.Resource
	asked  time.Time
	// served is the name of the resource that served the alias until that was removed:
	// its clients know it by that (RES-10).
	served string
}

// Answer is the server's answer that the name stands for nothing, nil if there is none.
func (a *Absence) Answer() *wire.Resource {
	if a == nil {
		return nil
	}
	return a.answer
}

// Served is the name of the resource that served the alias, "" if none did.
func (a *Absence) Served() string {
	if a == nil {
		return ""
	}
	return a.served
}

// noExtra is shared by all entries without extra fields. It stays empty.
var noExtra = new(extra)

// own returns the extra fields for writing. The caller calls tidy after it has emptied one.
func (x *extras) own() *extra {
	if x.extra == noExtra {
		x.extra = new(extra)
	}
	return x.extra
}

// tidy drops the extra fields if all are empty.
func (x *extras) tidy() {
	if x.extra != noExtra && x.empty() {
		x.extra = noExtra
	}
}

func (x *extra) empty() bool {
	return x.spelled == "" && x.err == nil && x.life == nil && x.sum == (digest.Sum{}) && x.retained == nil &&
		x.back == (comeback{}) && x.absence == nil && x.audience == nil && x.demand == nil
}

// spell notes how the server spells the name with a key. It does not keep the string.
func (x *extras) spell(key, name string) {
	if name == key {
		name = ""
	}
	if x.spelled != name {
		x.own().spelled = strings.Clone(name)
		x.tidy()
	}
}

func (x *extras) setErr(err *wire.ResourceError) {
	if x.err != err {
		x.own().err = err
		x.tidy()
	}
}

func (x *extras) setSum(s digest.Sum) {
	if x.sum != s {
		x.own().sum = s
		x.tidy()
	}
}

func (x *extras) setBack(b comeback) {
	if x.back != b {
		x.own().back = b
		x.tidy()
	}
}

// named reports whether the entry is asked for by its name.
func (x *extra) named() bool { return x.audience != nil || x.demand != nil }

// watchers is the number of subscriptions to the name.
func (x *extra) watchers() int {
	if x.audience == nil {
		return 0
	}
	return x.audience.Count(0)
}
