package logs

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	// window is how long the lines of a message are counted, from the first on.
	window = time.Minute
	// maxMessages bounds how many messages have a count of their own in a minute. The relay's messages
	// are literals, and fewer.
	maxMessages = 256
	// Others is the message under which all further messages are counted together.
	Others = "others"
)

// Limit bounds how many lines a log has of each message. Its methods may be called from any goroutine.
type Limit struct {
	// Most bounds how many messages or keys have a count of their own in a minute; 0: maxMessages. It is set before the
	// first line.
	Most int

	// immutable
	to      slog.Handler
	leftOut func(message string)

	mu        sync.Mutex // guards what follows
	perMinute int
	messages  map[string]*count
	swept     time.Time // when counts whose window is over were looked for
	closed    bool
}

// count has the lines of one message in its present window.
type count struct {
	began time.Time
	lines int // that the log has
	left  int // that the log lacks
	level slog.Level
	timer *time.Timer // ends the window; nil: the log lacks nothing
}

// NewLimit gives a limit before a handler: at most perMinute lines of each message in a minute; 0 sets no
// limit. leftOut is called for each line that the log lacks. It may be called from any goroutine and must
// not block. Close must be called.
func NewLimit(to slog.Handler, perMinute int, leftOut func(message string)) *Limit {
	return &Limit{to: to, leftOut: leftOut, perMinute: perMinute, messages: make(map[string]*count)}
}

// Handler gives the handler to log to.
func (l *Limit) Handler() slog.Handler { return &handler{to: l.to, limit: l} }

// For gives a handler whose lines are all counted under a key, whatever their message.
func (l *Limit) For(key string) slog.Handler { return &handler{l.to, l, key} }

// Unlimited gives a handler whose lines are not limited, for what must be in the log.
func (l *Limit) Unlimited() slog.Handler { return &handler{to: l.to} }

// Set changes how many lines of a message the log has in a minute. It counts for the present minute too.
func (l *Limit) Set(perMinute int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.perMinute = perMinute
}

// Close tells of all lines that the log lacks so far. Nothing is left out after it.
func (l *Limit) Close() {
	l.mu.Lock()
	l.closed = true
	messages := l.messages
	l.messages = nil
	l.mu.Unlock()
	for message, c := range messages {
		if c.timer != nil {
			c.timer.Stop()
			l.tell(message, c)
		}
	}
}

// admit counts a line, and reports whether the log has it.
func (l *Limit) admit(level slog.Level, message string) bool {
	reason, admitted := l.count(level, message)
	if !admitted && l.leftOut != nil {
		l.leftOut(reason)
	}
	return admitted
}

func (l *Limit) count(level slog.Level, message string) (reason string, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.perMinute <= 0 {
		return message, true
	}
	now := time.Now()
	c := l.messages[message]
	if c == nil && !l.room(now) {
		message = Others
		c = l.messages[message]
	}
	if c == nil {
		c = new(count)
		l.messages[message] = c
	}
	if c.timer == nil && now.Sub(c.began) >= window {
		*c = count{began: now}
	}
	if c.lines < l.perMinute {
		c.lines++
		return message, true
	}
	c.left++
	c.level = max(c.level, level)
	if c.timer == nil {
		c.level = level
		c.timer = time.AfterFunc(c.began.Add(window).Sub(now), func() { l.end(message, c) })
	}
	return message, false
}

// room reports whether one more message may have a count of its own. Counts whose window is over make room.
func (l *Limit) room(now time.Time) bool {
	most := cmp.Or(l.Most, maxMessages)
	if len(l.messages) >= most && now.Sub(l.swept) >= window {
		l.swept = now
		maps.DeleteFunc(l.messages, func(_ string, c *count) bool { return c.timer == nil && now.Sub(c.began) >= window })
	}
	return len(l.messages) < most
}

// end ends the window of a message.
func (l *Limit) end(message string, c *count) {
	l.mu.Lock()
	if l.messages[message] != c { // Close tells
		l.mu.Unlock()
		return
	}
	delete(l.messages, message)
	l.mu.Unlock()
	l.tell(message, c)
}

// tell logs how many lines of a message the log lacks. Nobody else has the count any more.
func (l *Limit) tell(message string, c *count) {
	ctx := context.Background()
	if !l.to.Enabled(ctx, c.level) {
		return
	}
	r := slog.NewRecord(time.Now(), c.level, "the log lacks lines", 0)
	r.Add("message", message, "left_out", c.left, "within", window)
	_ = l.to.Handle(ctx, r) // a handler that fails has no one to tell
}

// handler is a slog.Handler before another one.
type handler struct {
	to    slog.Handler
	limit *Limit // nil: none
	key   string // in place of the message; "": none
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if h.limit != nil && !h.limit.admit(r.Level, cmp.Or(h.key, r.Message)) {
		return nil
	}
	return h.to.Handle(ctx, cleanRecord(&r))
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.to.WithAttrs(cleanAll(attrs)), h.limit, h.key}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.to.WithGroup(name), h.limit, h.key}
}
