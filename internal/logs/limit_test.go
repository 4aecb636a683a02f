package logs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// logged is what a limit lets through, and what it counts.
type logged struct {
	*Limit

	log *slog.Logger

	mu   sync.Mutex
	text bytes.Buffer
	left map[string]int
}

func newLogged(perMinute int, made func(*logged) slog.Handler) *logged {
	l := &logged{left: make(map[string]int)}
	l.Limit = NewLimit(made(l), perMinute, func(message string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.left[message]++
	})
	l.log = slog.New(l.Handler())
	return l
}

func text(l *logged) slog.Handler {
	return slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo})
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// has expects so many lines with a part since the last call of forget.
func (l *logged) has(t *testing.T, lines int, part string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := strings.Count(l.text.String(), part); got != lines {
		t.Errorf("%d times %q, want %d:\n%s", got, part, lines, l.text.String())
	}
}

func (l *logged) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// Each message has its own minute, which begins with its first line. At its end the log has the count
// of the lines that it lacks, at their highest level.
func TestLimit_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogged(3, text)
		defer l.Close()
		one := l.log.With("client", 1)
		for range 5 {
			l.log.Info("refused")
			one.WithGroup("g").Warn("refused")
			l.log.Debug("refused") // below the level: nothing is counted
		}
		l.log.Warn("another")
		l.has(t, 3, "msg=refused")
		l.has(t, 1, "msg=another")
		<-time.After(window - 1)
		l.log.Info("refused")
		l.has(t, 3, "msg=refused")
		<-time.After(1)
		synctest.Wait()
		l.has(t, 1, `level=WARN msg="the log lacks lines" message=refused left_out=8 within=1m0s`)
		l.forget()

		l.log.Info("refused")
		<-time.After(2 * window)
		synctest.Wait()
		l.has(t, 1, "\n") // of a minute in which nothing is left out the log says nothing
		if l.left["refused"] != 8 || len(l.left) != 1 {
			t.Errorf("counted are %v", l.left)
		}
	})
}

// Nothing is lost at the end, and nothing is left out after it.
func TestLimitClose_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogged(1, text)
		for range 4 {
			l.log.Info("refused")
		}
		l.Close()
		l.has(t, 1, "message=refused left_out=3 ")
		for range 4 {
			l.log.Info("refused")
		}
		l.has(t, 5, "msg=refused")
		<-time.After(2 * window)
		l.has(t, 1, "left_out")
		l.Close()
		l.has(t, 1, "left_out")
	})
}

// A reload changes the limit, for the present minute too; 0 is none. What has to be in the log has none.
func TestLimitSet_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogged(1, text)
		defer l.Close()
		say := func(times, more int) {
			t.Helper()
			l.forget()
			for range times {
				l.log.Info("refused")
			}
			l.has(t, more, "msg=refused")
		}
		say(4, 1)
		l.Set(3)
		say(4, 2)
		l.Set(0)
		say(4, 4)
		l.Set(1)
		l.forget()
		must := slog.New(l.Unlimited())
		for range 4 {
			must.Info("done", "name", strings.Repeat("n", 300))
		}
		l.has(t, 4, "msg=done name="+strings.Repeat("n", maxName)+"…\n")
	})
}

// However many messages there are, the limit takes bounded memory: what is new then counts as one.
func TestLimitMessages_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogged(2, text)
		defer l.Close()
		for i := range 2 * maxMessages {
			l.log.Info(fmt.Sprintf("message %d", i)) //nolint:sloglint // because it must be another one each time
		}
		l.has(t, maxMessages+2, "msg=")
		if len(l.messages) != maxMessages+1 || l.left[Others] != maxMessages-2 || len(l.left) != 1 {
			t.Errorf("%d messages are counted, and left out are %v", len(l.messages), l.left)
		}
	})
}

// Many goroutines log at once: no line is lost without being counted.
func TestLimitRace_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLogged(10, text)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range 100 {
					l.log.Info("refused", "i", i)
				}
			})
		}
		all.Wait()
		l.Close()
		l.has(t, 10, "msg=refused")
		l.has(t, 1, "left_out=790 ")
	})
}

type spelled struct{ text string }

func (s spelled) String() string { return s.text }

// Whatever the values are, a line is short, valid UTF-8 and controls no terminal.
func TestClean_LIM4(t *testing.T) {
	bad := "a\x00b\x1b[31mc\u009bd\u202ee\xfff\n\tg" + strings.Repeat("é", 300)
	want := "a\uFFFDb\uFFFD[31mc\uFFFDd\uFFFDe\uFFFDf\n\tg"
	for format, made := range map[string]func(*logged) slog.Handler{
		"text": text,
		"json": func(l *logged) slog.Handler { return slog.NewJSONHandler(l, nil) },
	} {
		for name, value := range map[string]any{
			"string": bad, "error": errors.New(bad), "strings": []string{"good", bad}, "stringer": spelled{bad},
			"group": slog.GroupValue(slog.String("x", bad)),
		} {
			t.Run(format+"/"+name, func(t *testing.T) {
				l := newLogged(10, made)
				defer l.Close()
				l.log.Info("said", "name", value)
				l.log.With("name", value).Info("said")
				line := l.text.String()
				if len(line) > 1500 || !utf8.ValidString(line) || strings.ContainsFunc(strings.ReplaceAll(line, "\n", ""), controls) || strings.Count(line, "\n") != 2 {
					t.Errorf("%d bytes: %q", len(line), line)
				}
				l.has(t, 2, strings.Repeat("é", 180)+"…")
			})
		}
	}
	if got := clean(bad, maxName); !strings.HasPrefix(got, want) || len([]rune(got)) != maxName+1 {
		t.Errorf("%q", got)
	}
	long := strings.Repeat("r", maxName+1)
	if a, changed := cleanAttr(slog.String("reason", long)); changed || a.Value.String() != long {
		t.Errorf("a text is cut: %v", a)
	}
	if a, _ := cleanAttr(slog.Any("nothing", nil)); a.Value.Any() != nil {
		t.Errorf("nothing becomes %v", a)
	}
	if a, _ := cleanAttr(slog.Any("at", time.Minute)); a.Value.Duration() != time.Minute {
		t.Errorf("a time becomes %v", a)
	}
}

// A clean line costs no memory of its own.
func TestCleanAllocs(t *testing.T) {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "said", 0)
	r.Add("name", "xdstp://a/b/c", "n", 1)
	if n := testing.AllocsPerRun(100, func() { _ = cleanRecord(&r) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
