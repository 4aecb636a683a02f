package filesource

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// Defaults of Config.
const (
	DefaultPoll    = time.Minute
	DefaultQuiet   = 100 * time.Millisecond
	DefaultMaxSize = 64 << 20
)

var (
	errNoPath  = errors.New("filesource: a path is needed")
	errRunning = errors.New("filesource: Run was called while it runs")
)

// Config says what to read.
type Config struct {
	// Path is a file or a folder. It need not exist yet, and may be a symbolic
	// link. The endings of names say what a file is: .json, .yaml, .yml, .pb and
	// .bin (binary), .textproto, .txtpb, .pbtxt and .pb_text.
	Path string
	// Log gets what is of interest in the search for a mistake, at the debug
	// level, and a warning if changes cannot be watched for. Nil: nothing.
	Log *slog.Logger
	// Report is called when a file, or Path itself, cannot be used (once for each
	// reason; what was valid last stays), and with nil when that is over or the file
	// is gone. The error is an *Error and holds nothing secret (OPS-6). It is called
	// from the goroutine of Run, after the snapshot that goes with it is there, and
	// must not block for long. Nil: nobody is told.
	Report func(file string, err error)
	// Poll is how often the files are looked at beside being watched, for what a
	// watch misses, as on network file systems. 0: DefaultPoll.
	Poll time.Duration
	// Quiet is for how long a file must not have been written to before it is
	// read. 0: DefaultQuiet.
	Quiet time.Duration
	// MaxSize is the largest file taken, in bytes. 0: DefaultMaxSize.
	MaxSize int64
}

func (c *Config) setDefaults() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Report == nil {
		c.Report = func(string, error) {}
	}
	if c.Poll <= 0 {
		c.Poll = DefaultPoll
	}
	if c.Quiet <= 0 {
		c.Quiet = DefaultQuiet
	}
	if c.MaxSize <= 0 {
		c.MaxSize = DefaultMaxSize
	}
}

// Source gives the newest state that the files of a path describe. Its methods
// may be called from any goroutine.
type Source struct {
	// Immutable after New.
	cfg    Config
	notify func() (*fsnotify.Watcher, error) // of the system; tests take it away

	running  atomic.Bool
	snapshot atomic.Pointer[Snapshot]

	// Owned by the goroutine of Run.
	files   map[string]*file // by name
	path    file             // Path: its problem if it is a folder, one of files if it is a file
	ignored map[string]bool  // names that were logged

	mu          sync.Mutex
	subscribers map[chan struct{}]struct{} // guarded by mu
}

// New makes a Source, which reads nothing until Run. It returns an error if the
// path is a file whose ending says nothing of its form.
func New(cfg Config) (*Source, error) {
	if cfg.Path == "" {
		return nil, errNoPath
	}
	if info, err := os.Stat(cfg.Path); err == nil && !info.IsDir() && formatOf(cfg.Path) < 0 {
		return nil, unknownEnding(cfg.Path)
	}
	cfg.setDefaults()
	s := &Source{
		cfg:         cfg,
		notify:      fsnotify.NewWatcher,
		files:       make(map[string]*file),
		path:        file{name: cfg.Path},
		ignored:     make(map[string]bool),
		subscribers: make(map[chan struct{}]struct{}),
	}
	s.snapshot.Store(&Snapshot{States: make(map[string]*State), Incomplete: true})
	return s, nil
}

// Snapshot gives the newest snapshot. It is never nil; before Run has read the
// files for the first time it has the number 0.
func (s *Source) Snapshot() *Snapshot { return s.snapshot.Load() }

// Subscribe gives a channel with one slot that is filled whenever there is a new
// snapshot, and a function that ends it. A caller that looks at Snapshot after Subscribe,
// and again after each receive, misses no snapshot but those that a newer one replaced.
func (s *Source) Subscribe() (changed <-chan struct{}, cancel func()) {
	ch := notify.New()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribers[ch] = struct{}{}
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, ch)
	}
}

// Run reads the files and follows their changes until ctx is done, and then
// returns nil. It returns an error if it runs already.
func (s *Source) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errRunning
	}
	defer s.running.Store(false)
	w := files.NewWatcher(files.WatcherConfig{
		Path: s.cfg.Path, Poll: s.cfg.Poll, Log: s.cfg.Log, System: s.notify,
		Entries: func(base string) bool { return !hidden(base) && formatOf(base) >= 0 },
	})
	defer w.Close()

	poll := time.NewTicker(s.cfg.Poll)
	defer poll.Stop()
	// The files that are quiet wait for one that is not, but not for ever.
	look := files.NewPacer(s.cfg.Quiet)
	defer look.Stop()
	if !s.pass(w, false) {
		look.Trigger(time.Now())
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			look.Tick(time.Now())
		case e := <-w.Events():
			if w.Concerns(e.Name) {
				look.Trigger(time.Now())
			}
		case err := <-w.Lost():
			// Events were lost, or the system says what this process cannot help.
			s.cfg.Log.Debug("watching files", slog.Any("error", err))
			look.Trigger(time.Now())
		case <-look.C():
			impatient := look.Overdue(time.Now())
			settled := s.pass(w, impatient)
			if settled || impatient {
				look.Done()
			}
			if !settled {
				look.Trigger(time.Now())
			}
		}
	}
}

// pass looks at everything once, and takes what changed if nobody is writing, or
// if impatient. It returns false if somebody is.
func (s *Source) pass(w *files.Watcher, impatient bool) (settled bool) {
	entries, bad := s.survey(w)
	s.path.unread = bad
	if bad != nil {
		// What the path held stays, like that of a server that cannot be reached.
		bad.File = s.path.name
		s.report(&s.path)
		return true
	}
	files, gone, settled := s.look(entries)
	if !settled && !impatient {
		return false
	}
	accept(files)
	for _, f := range gone {
		*f = file{name: f.name, reported: f.reported}
		s.report(f)
		delete(s.files, f.name)
	}
	s.report(&s.path)
	for _, f := range files {
		s.report(f)
	}
	s.publish(files) // last: with the new content of a file its report as mended is there already
	return settled
}

// look looks at the files of these names. gone are those that there were before.
func (s *Source) look(names []string) (files, gone []*file, settled bool) {
	settled = true
	now, there := time.Now(), make(map[string]bool, len(names))
	for _, name := range names {
		f := s.files[name]
		if f == nil {
			f = &file{name: name}
			if name == s.cfg.Path {
				f = &s.path
			}
			s.files[name] = f
		}
		if !f.look(now, &s.cfg) {
			settled = false
		}
		files, there[name] = append(files, f), true
	}
	for name, f := range s.files {
		if !there[name] {
			gone = append(gone, f)
		}
	}
	return files, gone, settled
}

// publish makes a new snapshot of what the files hold, if that is another one.
func (s *Source) publish(files []*file) {
	before := s.snapshot.Load()
	after := newSnapshot(before, files)
	if after == before {
		return
	}
	s.snapshot.Store(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.subscribers {
		notify.Signal(ch)
	}
}

// report tells what is wrong with a file, once for each reason.
func (s *Source) report(f *file) {
	var reason string
	bad := f.problem()
	if bad != nil {
		reason = bad.Error()
	}
	if reason == f.reported {
		return
	}
	f.reported = reason
	if bad == nil {
		s.cfg.Report(f.name, nil)
		return
	}
	s.cfg.Report(f.name, bad)
}
