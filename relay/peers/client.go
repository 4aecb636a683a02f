package peers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lookupEvery is how often names of peers are looked up while peers are needed.
	lookupEvery = 5 * time.Second
	// connectionIdle is how long a connection without requests stays.
	connectionIdle = 30 * time.Second
	// dialEvery is how often a peer is dialled at most: one that sends each connection away is dialled once an exchange.
	dialEvery = time.Second
	// maxHeader bounds the headers of an answer, in bytes.
	maxHeader = 16 << 10
)

// Resolver looks up the IP addresses of a name, as net.Resolver does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// ClientConfig says which peers there are and how they are reached.
type ClientConfig struct {
	ID         string   // of this process
	Addresses  []string // host:port; a name stands for all its addresses
	Identities []string // of peers
	// TLS gives the configuration of a connection, which verifies the peer's certificate.
	TLS       func() (*tls.Config, error)
	UserAgent string
	Resolver  Resolver                                                             // nil: the system's
	Connect   func(ctx context.Context, network, address string) (net.Conn, error) // nil: by the system
	MaxBytes  int                                                                  // of an image
}

// Client asks peers. Its methods may be called from any goroutine.
type Client struct {
	cfg   ClientConfig
	large chan struct{} // has one element while a large image is read

	mu     sync.Mutex
	looked time.Time        // when names were looked up last
	peers  map[string]*Peer // by target and address
	closed bool
}

// NewClient connects to nothing yet. Close must be called.
func NewClient(cfg ClientConfig) *Client {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Connect == nil {
		cfg.Connect = new(net.Dialer).DialContext
	}
	return &Client{cfg: cfg, large: make(chan struct{}, 1), peers: make(map[string]*Peer)}
}

// Close closes the connections. Exchanges end with errors.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for key, p := range c.peers {
		p.close()
		delete(c.peers, key)
	}
}

// Peers lists the peers that may answer now, in the order of the configuration. It looks names up if
// that was long ago. A name that cannot be looked up keeps its addresses.
func (c *Client) Peers(ctx context.Context) []*Peer {
	now := time.Now()
	c.mu.Lock()
	due := now.Sub(c.looked) >= lookupEvery
	if due {
		c.looked = now
	}
	c.mu.Unlock()
	if due {
		c.lookUp(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Peer
	for _, p := range c.peers {
		if p.willing(now) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Peer) int {
		order := func(p *Peer) int { return slices.Index(c.cfg.Addresses, p.target) }
		return cmp.Or(order(a)-order(b), strings.Compare(a.Address, b.Address))
	})
	return all
}

// lookUp takes up the addresses of all peers.
func (c *Client) lookUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for _, target := range c.cfg.Addresses {
		host, port, err := net.SplitHostPort(target)
		if err != nil {
			continue // a valid configuration has none
		}
		addresses := []string{target}
		if _, err := netip.ParseAddr(host); err != nil {
			found, err := c.cfg.Resolver.LookupNetIP(ctx, "ip", host)
			if err != nil || len(found) == 0 {
				continue
			}
			addresses = addresses[:0]
			for _, a := range found {
				addresses = append(addresses, net.JoinHostPort(a.Unmap().String(), port))
			}
		}
		c.adopt(target, addresses)
	}
}

// adopt replaces the addresses of a target.
func (c *Client) adopt(target string, addresses []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	for key, p := range c.peers {
		if p.target == target && !slices.Contains(addresses, p.Address) {
			p.close()
			delete(c.peers, key)
		}
	}
	for _, a := range addresses {
		key := target + " " + a
		if c.peers[key] == nil {
			c.peers[key] = newPeer(c, target, a)
		}
	}
}

// The times for which a peer is not asked again.
const (
	afterFailure = 5 * time.Second  // it cannot be reached, or did not answer
	afterRefusal = 30 * time.Second // it does not let the relay ask, or its answer is too large
	afterSelf    = 5 * time.Minute  // it is the relay itself
)

// Peer is one relay, at one address.
type Peer struct {
	Address string // what is dialled

	client    *Client
	target    string // of the configuration
	transport *http.Transport

	mu      sync.Mutex
	dialled time.Time
	until   time.Time // it is not asked before
	trouble Result    // of the last exchange; "": none
}

func newPeer(c *Client, target, address string) *Peer {
	p := &Peer{Address: address, client: c, target: target}
	p.transport = &http.Transport{
		DialTLSContext: p.dial, ForceAttemptHTTP2: true, MaxConnsPerHost: 1, DisableCompression: true,
		IdleConnTimeout: connectionIdle, MaxResponseHeaderBytes: maxHeader,
	}
	return p
}

var (
	errSentAway = errors.New("the peer ends connections at once")
	errStranger = errors.New("the peer's certificate has no name of peers.identities, or several URIs")
)

// dial opens a connection to the peer, and verifies that it is one.
func (p *Peer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	p.mu.Lock()
	now := time.Now()
	early := now.Sub(p.dialled) < dialEvery
	if !early {
		p.dialled = now
	}
	p.mu.Unlock()
	if early {
		return nil, errSentAway
	}
	cfg, err := p.client.cfg.TLS()
	if err != nil {
		return nil, err
	}
	cfg.ServerName, _, _ = net.SplitHostPort(p.target) // of a valid configuration it has both
	verify := cfg.VerifyConnection
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if err := verify(state); err != nil {
			return err
		}
		if Identity(p.client.cfg.Identities, state.PeerCertificates[0]) == "" {
			return errStranger
		}
		return nil
	}
	raw, err := p.client.cfg.Connect(ctx, network, p.Address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // the handshake's error says why
		return nil, err
	}
	return conn, nil
}

func (p *Peer) close() { p.transport.CloseIdleConnections() } // the others end with their exchanges

func (p *Peer) willing(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !now.Before(p.until)
}

// finish has the peer left alone for a while after an exchange that failed.
func (p *Peer) finish(err error) {
	pause := afterFailure
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return
	case errors.Is(err, ErrSelf):
		pause = afterSelf
	case errors.Is(err, ErrRefused), errors.Is(err, ErrTooLarge):
		pause = afterRefusal
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(pause)
}

// Trouble notes what is wrong with the peer; "" if it answered. It reports whether that is news.
func (p *Peer) Trouble(is Result) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news = p.trouble != is
	p.trouble = is
	return news
}
