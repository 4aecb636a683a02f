package peers

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// lookupEvery is how often names of peers are looked up while peers are needed.
	lookupEvery = 5 * time.Second
	// connectionIdle is how long a connection without streams stays.
	connectionIdle = 30 * time.Second
	// maxAnswer bounds one response of a peer, in bytes.
	maxAnswer = 64 << 20
	// streamWindow and connWindow save a round trip for each burst of a large answer.
	streamWindow, connWindow = 4 << 20, 16 << 20
)

// Resolver looks up the IP addresses of a name, as net.Resolver does.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// ClientConfig says which peers there are and how they are reached.
type ClientConfig struct {
	ID          string   // of this process
	Addresses   []string // host:port; a name stands for all its addresses
	Credentials credentials.TransportCredentials
	Authority   string // name in the peers' certificates; "": the host of the address
	UserAgent   string
	Resolver    Resolver // nil: the system's
	Connect     func(ctx context.Context, network, address string) (net.Conn, error)
	Options     []grpc.DialOption
	MaxBytes    int // of one exchange
	Panics      *logs.Panics
}

// Client asks peers. Its methods may be called from any goroutine.
type Client struct {
	cfg ClientConfig

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
	return &Client{cfg: cfg, peers: make(map[string]*Peer)}
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

// Peers lists the peers that may answer now, in the same order each time. It looks names up if
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
		return slices.Compare([]string{a.target, a.Address}, []string{b.target, b.Address})
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
			if cc, err := c.dial(target, a); err == nil {
				c.peers[key] = &Peer{Address: a, target: target, id: c.cfg.ID, maxBytes: c.cfg.MaxBytes, cc: cc, panics: c.cfg.Panics}
			}
		}
	}
}

// dial makes a connection, which is opened by its first stream.
func (c *Client) dial(target, address string) (*grpc.ClientConn, error) {
	authority := target
	if c.cfg.Authority != "" {
		authority = c.cfg.Authority
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(retry.PacedCredentials(c.cfg.Credentials)), grpc.WithAuthority(authority), grpc.WithUserAgent(c.cfg.UserAgent),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithIdleTimeout(connectionIdle), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
	}
	if connect := c.cfg.Connect; connect != nil {
		opts = append(opts, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return connect(ctx, "tcp", address)
		}))
	}
	return grpc.NewClient("passthrough:///"+address, append(opts, c.cfg.Options...)...)
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

	target, id string // of the configuration; of this process
	maxBytes   int
	cc         *grpc.ClientConn
	panics     *logs.Panics

	mu      sync.Mutex
	until   time.Time // it is not asked before
	refused bool      // the last answer was that the relay may not ask
}

func (p *Peer) close() { _ = p.cc.Close() } // fails only where it is closed already

func (p *Peer) willing(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !now.Before(p.until)
}

// rest has the peer left alone for a while.
func (p *Peer) rest(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Now().Add(d)
}

// Refused notes whether the peer lets the relay ask. It reports whether that is news.
func (p *Peer) Refused(is bool) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	news = p.refused != is
	p.refused = is
	return news
}
