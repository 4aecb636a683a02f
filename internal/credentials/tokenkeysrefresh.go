package credentials

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/logs"
)

const (
	// fetchTime is how long fetching keys may take.
	fetchTime = 5 * time.Second
	// fetchEvery is how often keys are fetched.
	fetchEvery = 5 * time.Minute
	// fetchPause is the least time between two fetches: clients that make key IDs up must not have
	// the relay ask without end.
	fetchPause = 10 * time.Second
	// readPause is the same for files.
	readPause = time.Second
)

// keys are those of one issuer.
type keys struct {
	// immutable
	trust  TokenIssuer
	read   func(context.Context) ([]byte, error)
	every  time.Duration
	pause  time.Duration // the least time between two looks
	report func(error)
	panics *logs.Panics
	ctx    context.Context //nolint:containedctx // because it ends with the keys, and is nobody's request
	stop   context.CancelFunc
	wg     sync.WaitGroup

	set  atomic.Pointer[keySet]
	got  atomic.Int64       // when they were read or fetched last, or the first attempt began; in nanoseconds
	asks chan chan struct{} // each is closed after the next look

	failed string // the reason that was reported last; of the goroutine
}

// openKeys reads the file of an issuer, or begins to fetch its keys.
func openKeys(t TokenIssuer, c *VerifierConfig) (*keys, error) {
	k := &keys{
		trust: t, every: fetchEvery, pause: fetchPause, panics: c.Panics, asks: make(chan chan struct{}),
		report: func(err error) { c.Report(t.Issuer, err) },
	}
	k.got.Store(time.Now().UnixNano())
	k.ctx, k.stop = context.WithCancel(context.Background())
	if t.File != "" {
		k.every, k.pause = c.Refresh, readPause
		k.read = func(context.Context) ([]byte, error) { return readFile(t.File) }
		if err := k.look(); err != nil {
			k.stop()
			return nil, fmt.Errorf("keys of issuer %q: %w", t.Issuer, err)
		}
	} else {
		client, err := clientOf(t.CAFile)
		if err != nil {
			k.stop()
			return nil, fmt.Errorf("keys of issuer %q: %w", t.Issuer, err)
		}
		k.read = func(ctx context.Context) ([]byte, error) { return fetch(ctx, client, t.URL) }
	}
	k.wg.Go(func() { k.panics.Loop(k.ctx, logs.PartBackground, k.run) })
	return k, nil
}

func (k *keys) close() {
	k.stop()
	k.wg.Wait()
}

// age is how long ago the keys were read or fetched, or should have been for the first time.
func (k *keys) age() time.Duration { return time.Since(time.Unix(0, k.got.Load())) }

// now gives the keys as they are; nil: none were fetched yet, or they are too old.
func (k *keys) now() keySet {
	if k.trust.MaxAge > 0 && k.age() > k.trust.MaxAge {
		return nil
	}
	if set := k.set.Load(); set != nil {
		return *set
	}
	return nil
}

// fresh gives the keys after another look at where they are, unless the last one was just now.
func (k *keys) fresh(ctx context.Context) keySet {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	looked := make(chan struct{})
	select {
	case k.asks <- looked:
		select {
		case <-looked:
		case <-ctx.Done():
		case <-k.ctx.Done():
		}
	case <-ctx.Done():
	case <-k.ctx.Done():
	}
	return k.now()
}

// run looks at the keys again and again.
func (k *keys) run() {
	var last time.Time
	if k.now() == nil {
		k.refresh()
		last = time.Now()
	}
	for {
		wait := k.every
		if k.now() == nil { // nothing was fetched yet
			wait = k.pause
		}
		timer := time.NewTimer(wait)
		select {
		case <-k.ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			k.refresh()
			last = time.Now()
		case looked := <-k.asks:
			timer.Stop()
			if now := time.Now(); now.Sub(last) >= k.pause {
				k.refresh()
				last = time.Now()
			}
			close(looked)
		}
	}
}

// refresh looks, and reports a new reason why that fails. The keys stay what they were then.
func (k *keys) refresh() {
	err := k.look()
	switch {
	case k.ctx.Err() != nil:
	case err == nil && k.failed != "":
		k.failed = ""
		k.report(nil)
	case err != nil && err.Error() != k.failed:
		k.failed = err.Error()
		k.report(err)
	}
}

func (k *keys) look() error {
	ctx, cancel := context.WithTimeout(k.ctx, fetchTime)
	defer cancel()
	text, err := k.read(ctx)
	if err != nil {
		return err
	}
	set, err := parseKeys(text)
	if err != nil {
		return fmt.Errorf("%s: %w", k.trust.source(), err)
	}
	k.set.Store(&set)
	k.got.Store(time.Now().UnixNano())
	return nil
}

func (t *TokenIssuer) source() string {
	if t.File != "" {
		return t.File
	}
	return t.URL
}

func readFile(name string) ([]byte, error) {
	text, err := files.Read(name, maxKeySet)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

var errRedirect = errors.New("the server redirects: expected the address of the keys themselves")

// clientOf makes a client for keys. It follows no redirects: they could lead to plaintext, or to
// other servers of the relay's network. It uses no proxy but the environment's.
func clientOf(caFile string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := files.Read(caFile, maxKeySet)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM form", caFile)
		}
	}
	return &http.Client{
		Timeout:       fetchTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
		Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			DialContext:     (&net.Dialer{Timeout: fetchTime}).DialContext,
			TLSClientConfig: config, TLSHandshakeTimeout: fetchTime, ResponseHeaderTimeout: fetchTime,
			MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		},
	}, nil
}

func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was read, or is of no use
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxKeySet+1))
}
