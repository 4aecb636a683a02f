package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/upstream/filesource"
)

// FilesConfig describes a control plane that is made of files (VAR-6). Zero values
// mean the defaults.
type FilesConfig struct {
	// Name is what configuration, logs and metrics call it.
	Name string
	// Path is a file or a folder of files, see [filesource.Config].
	Path string
	// FullState are the types of which a resource that is missing from the files is gone (RES-8);
	// nil means keyer.FullStateTypes. Of others it stays with clients that have it.
	FullState map[string]bool
	// MaxSize is the largest file taken, in bytes.
	MaxSize int64
	// Poll is how often the files are looked at beside being watched.
	Poll time.Duration
	// Quiet is for how long a file must not have been written to before it is read.
	Quiet time.Duration
	// Batch is how long demand is gathered before it is answered.
	Batch time.Duration
	// Observer is told of files that cannot be used; nil means none.
	Observer Observer
	// Logger gets messages for the operator; nil means none.
	Logger *slog.Logger
	// Panics catches panics in the reading of files (SUR-6); nil: none is caught.
	Panics *logs.Panics
}

func (c FilesConfig) withDefaults() FilesConfig {
	if c.FullState == nil {
		c.FullState = keyer.TypeSet(keyer.FullStateTypes())
	}
	if c.Batch <= 0 {
		c.Batch = DefaultBatch
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	c.Logger = loggerOf(c.Logger, c.Name)
	return c
}

// Files is a control plane made of files. They are read and watched once, for all of
// its sessions. Its methods may be called from any goroutine.
//
// Nothing of a file but types and names of resources gets into logs or Status (OPS-6).
type Files struct {
	// Immutable after NewFiles.
	cfg    FilesConfig
	source *filesource.Source
	stop   context.CancelFunc
	wg     sync.WaitGroup
	looked chan struct{} // closed when the path was read, or could not be, for the first time

	*roster

	view atomic.Pointer[fileView]
	once sync.Once // closes looked

	mu       sync.Mutex
	problems map[string]error      // by file; of those that cannot be used now
	failed   *ConnectionError      // the latest problem, which may be over; nil if there never was one
	sessions map[*Session]struct{} // to be woken by changes
}

// NewFiles begins to read the files of a path, which need not exist yet. The error is
// that they can never be read. Close must be called.
func NewFiles(cfg FilesConfig) (*Files, error) {
	cfg = cfg.withDefaults()
	f := &Files{
		cfg: cfg, looked: make(chan struct{}), roster: newRoster(),
		problems: make(map[string]error), sessions: make(map[*Session]struct{}),
	}
	f.view.Store(&fileView{})
	var err error
	f.source, err = filesource.New(filesource.Config{
		Path: cfg.Path, Log: cfg.Logger, Report: f.report, Poll: cfg.Poll, Quiet: cfg.Quiet, MaxSize: cfg.MaxSize,
	})
	if err != nil {
		return nil, fmt.Errorf("upstream %q: %w", cfg.Name, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	changed, unsubscribe := f.source.Subscribe()
	f.wg.Go(func() {
		cfg.Panics.Loop(ctx, logs.PartBackground, func() {
			// It fails only where it runs already.
			_ = f.source.Run(ctx)
		})
	})
	f.wg.Go(func() {
		defer unsubscribe()
		for {
			select {
			case <-changed:
				_ = cfg.Panics.Do(logs.PartBackground, func() { f.take(f.source.Snapshot()) }) // the view before stays
			case <-ctx.Done():
				return
			}
		}
	})
	return f, nil
}

// Close ends the sessions, whose Run returns ErrClosed, waits for them and stops
// reading.
func (f *Files) Close() {
	f.close()
	f.stop()
	f.wg.Wait()
}

// Causes gives none: files have no endpoints, and Reach has their errors.
func (*Files) Causes() []Cause { return nil }

// Reach waits until the path was read once. The error is that it cannot be read, or
// ctx's.
func (f *Files) Reach(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.looked:
	}
	if f.view.Load().read {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if bad := f.problems[f.cfg.Path]; bad != nil {
		return fmt.Errorf("upstream %q: %w", f.cfg.Name, bad)
	}
	return fmt.Errorf("upstream %q: %w", f.cfg.Name, errNotRead)
}

// Problems are the files that cannot be used as they are now, in order, each with the
// reason: what was valid last stays.
func (f *Files) Problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, err := range f.problems {
		list = append(list, err.Error())
	}
	slices.Sort(list)
	return list
}

// take makes a view of a snapshot and wakes the sessions.
func (f *Files) take(snap *filesource.Snapshot) {
	view, bad := newFileView(f.view.Load(), snap)
	f.view.Store(view)
	for _, typeURL := range slices.Sorted(maps.Keys(snap.States)) {
		f.check(typeURL, bad[typeURL])
	}
	f.once.Do(func() { close(f.looked) })
	f.wake()
}

// check reports faults of a type's resources taken together, and of no file
// alone, once for each reason.
func (f *Files) check(typeURL string, err error) {
	subject := f.cfg.Path + " (" + typeURL + ")"
	f.mu.Lock()
	was := f.problems[subject]
	f.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("%s: %w", subject, err)
	}
	if (err == nil) != (was == nil) || (err != nil && err.Error() != was.Error()) {
		f.report(subject, err)
	}
}

// report notes the fault of a file or a type, or that there is none any more.
func (f *Files) report(file string, err error) {
	f.mu.Lock()
	if err == nil {
		delete(f.problems, file)
	} else {
		f.problems[file] = err
		// A path that cannot be read is to files what a lost connection is to a server.
		f.failed = &ConnectionError{Endpoint: f.cfg.Path, Reason: ReasonMalformed, Err: err, At: time.Now()}
		if file == f.cfg.Path {
			f.failed.Reason = ReasonUnreachable
		}
	}
	f.mu.Unlock()
	if err == nil {
		f.cfg.Logger.Info("file can be used again", "file", file)
	} else {
		f.cfg.Logger.Warn("file cannot be used, keeping what it held before", "file", file, "error", err)
		f.cfg.Observer.FileUnusable()
	}
	if file == f.cfg.Path && !f.view.Load().read && f.source.Snapshot().Number == 0 {
		f.once.Do(func() { close(f.looked) })
	}
	f.wake()
}

// away reports whether the path as a whole cannot be read, so that what is served may
// be getting old (OPS-1), and what went wrong last.
func (f *Files) away() (away bool, last *ConnectionError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.problems[f.cfg.Path] != nil, f.failed
}

func (f *Files) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.sessions {
		s.ring()
	}
}
