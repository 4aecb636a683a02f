package credentials

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// DefaultRefresh is how often files are looked at for changes. Certificates
// live for hours at least. A program that replaces one (cert-manager, the kubelet)
// takes about a minute for it. Reading three small files costs nothing.
const DefaultRefresh = time.Minute

// watcher keeps the newest good material of a set of files.
type watcher struct {
	// Immutable after newWatcher.
	paths  paths
	report func(error)
	panics *logs.Panics
	stop   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup

	newest atomic.Pointer[material]

	// Owned by the watcher's goroutine.
	seen   contents // what newest was made from
	failed string   // the reason reported last, "" if the files are good
}

// newWatcher reads the files once, fails if they cannot be used, and starts to
// look after them.
func newWatcher(f paths, refresh time.Duration, report func(error), panics *logs.Panics) (*watcher, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if refresh <= 0 {
		refresh = DefaultRefresh
	}
	if report == nil {
		report = func(error) {}
	}
	w := &watcher{paths: f, report: report, panics: panics, stop: make(chan struct{})}
	m, c, err := w.load()
	if err != nil {
		return nil, err
	}
	w.seen = c
	w.newest.Store(m)
	if f != (paths{}) {
		w.wg.Go(func() { w.run(refresh) })
	}
	return w, nil
}

// load reads and parses. A certificate and its key are two files, and a reader
// may come between the replacing of one and of the other: a second look tells
// that case from a pair that really does not fit.
func (w *watcher) load() (*material, contents, error) {
	var (
		c   contents
		m   *material
		err error
	)
	for range 2 {
		if c, err = w.paths.read(); err != nil {
			continue
		}
		if m, err = w.paths.parse(c, time.Now()); err == nil {
			return m, c, nil
		}
	}
	return nil, contents{}, err
}

func (w *watcher) run(refresh time.Duration) {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			_ = w.panics.Do(logs.PartBackground, w.refresh) // the files are looked at again
		}
	}
}

// refresh takes up changed files, or keeps the last good ones and says why,
// once for each reason.
func (w *watcher) refresh() {
	// What has not changed is not judged anew: a certificate in use that runs
	// out is the same file, and no better one is known.
	if c, err := w.paths.read(); err == nil && c.equal(w.seen) {
		if w.failed != "" {
			w.failed = ""
			w.report(nil)
		}
		return
	}
	m, c, err := w.load()
	if err != nil {
		if err.Error() != w.failed {
			w.failed = err.Error()
			w.report(err)
		}
		w.renewPair()
		return
	}
	w.failed = ""
	w.seen = c
	w.newest.Store(m)
	w.report(nil)
}

// renewPair takes up a new certificate of the server's own where the files cannot be used as a whole: a revocation list that nobody
// renews must not have it run out. Whose certificates count stays as it was.
func (w *watcher) renewPair() {
	if w.paths.crl == "" {
		return
	}
	pair := paths{cert: w.paths.cert, key: w.paths.key}
	c, err := pair.read()
	if err != nil || bytes.Equal(c.cert, w.seen.cert) && bytes.Equal(c.key, w.seen.key) {
		return
	}
	m, err := pair.parse(c, time.Now())
	if err != nil {
		return
	}
	m.roots = w.newest.Load().roots
	w.seen.cert, w.seen.key = c.cert, c.key
	w.newest.Store(m)
}

// current implements source.
func (w *watcher) current() (*material, error) { return w.newest.Load(), nil }

// roots implements source.
func (w *watcher) roots() *Roots { return w.newest.Load().roots }

// close stops the watcher and waits for it; the last good material stays.
func (w *watcher) close() {
	w.once.Do(func() { close(w.stop) })
	w.wg.Wait()
}
