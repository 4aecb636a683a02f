package upstream

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// The defaults of Config and RESTConfig.
const (
	DefaultMaxReceiveSize   = 64 << 20
	DefaultMaxRequestSize   = 4<<20 - 64<<10 // what servers accept by default, with room to spare
	DefaultConnectTimeout   = 10 * time.Second
	DefaultKeepaliveTime    = 10 * time.Second
	DefaultKeepaliveTimeout = 10 * time.Second
	DefaultPollInterval     = 10 * time.Second
	DefaultPollTimeout      = time.Minute
	DefaultBackoffBase      = 500 * time.Millisecond
	DefaultBackoffMax       = 5 * time.Second
	DefaultFailbackInterval = 30 * time.Second
	DefaultBatch            = 5 * time.Millisecond
	DefaultNackAcks         = 1
)

// setting is one with a default. Negative values make no sense for any.
type setting[T int | time.Duration] struct {
	name  string
	value *T
	def   T
}

func (s setting[T]) fill() error {
	if *s.value < 0 {
		return fmt.Errorf("%s is negative", s.name)
	}
	if *s.value == 0 {
		*s.value = s.def
	}
	return nil
}

// common is what the configurations of all servers have, streams and polls alike.
type common struct {
	name                                              string
	endpoints                                         []string
	fullState                                         *map[string]bool
	receive, request                                  *int
	connect, backoffBase, backoffMax, failback, batch *time.Duration
	logger                                            **slog.Logger
}

// withDefaults fills in what is missing. more are the durations of one kind of server.
func (c common) withDefaults(more ...setting[time.Duration]) error {
	if len(c.endpoints) == 0 {
		return errors.New("no endpoints")
	}
	if *c.fullState == nil {
		*c.fullState = keyer.TypeSet(keyer.FullStateTypes())
	}
	for _, s := range append([]setting[time.Duration]{
		{"connect timeout", c.connect, DefaultConnectTimeout},
		{"back-off base", c.backoffBase, DefaultBackoffBase},
		{"back-off maximum", c.backoffMax, DefaultBackoffMax},
		{"failback interval", c.failback, DefaultFailbackInterval},
		{"batch", c.batch, DefaultBatch},
	}, more...) {
		if err := s.fill(); err != nil {
			return err
		}
	}
	for _, s := range []setting[int]{
		{"receive size", c.receive, DefaultMaxReceiveSize},
		{"request size", c.request, DefaultMaxRequestSize},
	} {
		if err := s.fill(); err != nil {
			return err
		}
	}
	*c.backoffMax = max(*c.backoffMax, *c.backoffBase)
	*c.logger = loggerOf(*c.logger, c.name)
	return nil
}

// loggerOf is the logger of an upstream; without one nothing is logged.
func loggerOf(log *slog.Logger, upstream string) *slog.Logger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return log.With("upstream", upstream)
}
