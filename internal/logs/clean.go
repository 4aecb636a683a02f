package logs

import (
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxName bounds names and whatever else stands in a line, in characters.
	maxName = 200
	// maxText bounds texts, in characters: they are shortened where they come from, and a stack or the
	// reason of a rejection has room.
	maxText = 16 << 10
)

// texts are the keys of values that are sentences, or several lines, and not names.
var texts = map[string]bool{
	"error": true, "reason": true, "problem": true, "warning": true, "changed": true, "running": true, "wanted": true,
	"faults": true, "first": true, "panic": true, "stack": true,
}

// cleanRecord gives a record with clean values: the same one if they are clean.
func cleanRecord(r *slog.Record) slog.Record {
	clean := true
	r.Attrs(func(a slog.Attr) bool {
		_, changed := cleanAttr(a)
		clean = clean && !changed
		return clean
	})
	if clean {
		return *r
	}
	made := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		a, _ = cleanAttr(a)
		made.AddAttrs(a)
		return true
	})
	return made
}

func cleanAll(attrs []slog.Attr) []slog.Attr {
	made := slices.Clone(attrs)
	for i, a := range made {
		made[i], _ = cleanAttr(a)
	}
	return made
}

// cleanAttr gives an attribute with a clean value, and whether that is another one.
func cleanAttr(a slog.Attr) (made slog.Attr, changed bool) {
	most := maxName
	if texts[a.Key] {
		most = maxText
	}
	switch v := a.Value.Resolve(); v.Kind() { //nolint:exhaustive // because the other kinds hold no text
	case slog.KindString:
		text := clean(v.String(), most)
		return slog.String(a.Key, text), text != v.String()
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(cleanAll(v.Group())...)}, true
	case slog.KindAny:
		return cleanAny(a.Key, v.Any(), most)
	}
	return a, false
}

func cleanAny(key string, value any, most int) (made slog.Attr, changed bool) {
	switch v := value.(type) {
	case error:
		return slog.String(key, clean(v.Error(), most)), true
	case []string:
		all := make([]string, len(v))
		for i, text := range v {
			all[i] = clean(text, most)
		}
		return slog.Any(key, all), true
	case encoding.TextMarshaler, json.Marshaler: // it has a form of its own
	case fmt.Stringer:
		return slog.String(key, clean(fmt.Sprint(v), most)), true
	}
	return slog.Any(key, value), false
}

// clean gives the beginning of a text, at most that many characters of it, as valid UTF-8 without
// control characters. Tabs and the ends of lines stay: handlers escape them.
func clean(text string, most int) string {
	short := text
	if len(text) > most { // else there are no more characters than bytes
		n := 0
		for i := range text {
			if n++; n > most {
				short = text[:i] + "…"
				break
			}
		}
	}
	if utf8.ValidString(short) && strings.IndexFunc(short, controls) < 0 {
		return short
	}
	return strings.Map(func(r rune) rune {
		if controls(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(short, string(utf8.RuneError)))
}

// controls reports whether a character does something to a terminal, or to the direction of the line.
func controls(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
}
