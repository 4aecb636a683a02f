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

// Asked is when the server was asked last for a name that has an answer, or answered.
func (a *Absence) Asked() time.Time { return a.asked }

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
func (e *extras) own() *extra {
	if e.extra == noExtra {
		e.extra = new(extra)
	}
	return e.extra
}

// tidy drops the extra fields if all are empty.
func (e *extras) tidy() {
	if e.extra != noExtra && e.empty() {
		e.extra = noExtra
	}
}

func (e *extra) empty() bool {
	return e.spelled == "" && e.err == nil && e.life == nil && e.sum == (digest.Sum{}) && e.retained == nil &&
		e.back == (comeback{}) && e.absence == nil && e.audience == nil && e.demand == nil
}

// spell notes how the server spells the name with a key. It does not keep the string.
func (e *extras) spell(key, name string) {
	if name == key {
		name = ""
	}
	if e.spelled != name {
		e.own().spelled = strings.Clone(name)
		e.tidy()
	}
}

func (e *extras) setErr(err *wire.ResourceError) {
	if e.err != err {
		e.own().err = err
		e.tidy()
	}
}

func (e *extras) setSum(s digest.Sum) {
	if e.sum != s {
		e.own().sum = s
		e.tidy()
	}
}

func (e *extras) setBack(b comeback) {
	if e.back != b {
		e.own().back = b
		e.tidy()
	}
}

// named reports whether the entry is asked for by its name.
func (e *extra) named() bool { return e.audience != nil || e.demand != nil }

// watchers is the number of subscriptions to the name.
func (e *extra) watchers() int {
	if e.audience == nil {
		return 0
	}
	return e.audience.Count(0)
}
