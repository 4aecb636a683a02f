package config

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0":      0,
		"0s":     0,
		"5ms":    5 * time.Millisecond,
		"1h30m":  90 * time.Minute,
		"10m":    10 * time.Minute,
		"24h":    24 * time.Hour,
		"1m0.5s": 60*time.Second + 500*time.Millisecond,
	} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.Std() != want {
			t.Errorf("%q: %v, %v, want %v", text, d, err, want)
		}
	}
	for text, want := range map[Duration]string{
		0:                                 "0s",
		Duration(10 * time.Minute):        "10m",
		Duration(2 * time.Hour):           "2h",
		Duration(90 * time.Minute):        "1h30m",
		Duration(time.Hour + time.Second): "1h0m1s",
		Duration(20 * time.Second):        "20s",
		Duration(50 * time.Minute):        "50m",
	} {
		if got := text.String(); got != want {
			t.Errorf("%d: %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"", "10", "soon", "-5s", "1d"} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "expected a duration") {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0":                    0,
		"0B":                   0,
		"17":                   17,
		"17B":                  17,
		"4KiB":                 4096,
		"4KB":                  4000,
		"512MiB":               512 << 20,
		"3.9MiB":               4089446, // 4089446.4
		"1.5GB":                1_500_000_000,
		"2GiB":                 2 << 30,
		"1TiB":                 1 << 40,
		"1TB":                  1e12,
		"8388607TiB":           8388607 << 40,
		"9223372036854775807B": 1<<63 - 1,
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q: %d, %v, want %d", text, s, err, want)
		}
	}
	for size, want := range map[Size]string{
		0: "0B", 1: "1B", 1000: "1000B", 1024: "1KiB", 1536: "1536B", 4 * MiB: "4MiB",
		4*MiB - 64*KiB: "4032KiB", 2 * GiB: "2GiB", 5 * TiB: "5TiB",
	} {
		if got := size.String(); got != want {
			t.Errorf("%d: %q, want %q", int64(size), got, want)
		}
	}
	for _, text := range []string{
		"", "B", "MiB", "-1", "+1", "1e3", "Inf", "0x10", "1.5", "1.5B", "1.", ".5MiB", "1.2.3MiB", "2Gb", "2G", "1 MiB",
		"8388608TiB", "9223372036854775808", "8388607.99999999999999999999TiB",
	} {
		var s Size
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "expected a size") {
			t.Errorf("%q: %d, %v", text, s, err)
		}
	}
}

func FuzzSize(f *testing.F) {
	f.Add("3.9MiB")
	f.Add("2GiB")
	f.Add("17")
	f.Fuzz(func(t *testing.T, text string) {
		var s, again Size
		if s.UnmarshalText([]byte(text)) != nil {
			return
		}
		if s < 0 {
			t.Fatalf("%q gives %d", text, int64(s))
		}
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Fatalf("%q gives %d, whose text %q gives %d, %v", text, int64(s), s, int64(again), err)
		}
	})
}

func TestLogLevelSlog(t *testing.T) {
	for level, want := range map[LogLevel]slog.Level{
		LevelDebug: slog.LevelDebug, LevelInfo: slog.LevelInfo, LevelWarn: slog.LevelWarn, LevelError: slog.LevelError,
		"": slog.LevelInfo,
	} {
		if got := level.Slog(); got != want {
			t.Errorf("%q: %v, want %v", level, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"listen", "tls", "tls_refresh", "max_message_size", "id", "idle"}
	for key, want := range map[string]string{
		"listn":            "listen",
		"lisetn":           "listen", // neighbours swapped
		"LISTEN":           "listen",
		"tls-refresh":      "tls_refresh",
		"maxMessageSize":   "max_message_size",
		"max_mesage_sizes": "max_message_size",
		"ids":              "id",
		"tsl":              "tls",
		"shards":           "",
		"":                 "",
		"ab":               "",
	} {
		if _, got := unknown(key, keys); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	if _, got := unknown(strings.Repeat("x", 1<<20), keys); got != "" {
		t.Errorf("a long key: %q", got)
	}
}
