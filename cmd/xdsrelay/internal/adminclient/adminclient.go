// Package adminclient asks the admin ports of several relays, all at once.
//
// It takes addresses and gives an answer for each. It knows the form of requests and errors, not
// what is asked: commands of cmd/xdsrelay do.
package adminclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/xdsrelay/xdsrelay/internal/sockets"
)

// maxAnswer bounds an answer in bytes.
const maxAnswer = 256 << 20

// Answer is what one relay answered.
type Answer[T any] struct {
	Address string
	Value   T
	Err     error // an *UnreachableError, a *RefusedError, or that the answer cannot be read
}

// UnreachableError is that a relay gave no answer. The request may have been carried out all the same
// if the relay took it.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return "unreachable: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// RefusedError is that a relay did not do what it was asked.
type RefusedError struct {
	Status int
	Reason string
}

func (e *RefusedError) Error() string { return e.Reason }

// Client asks relays. Any goroutine may use it.
type Client struct {
	ports []port
	opts  Options
}

// Options are how relays are asked. The zero value asks in plaintext and without a token.
type Options struct {
	Token    string      // a bearer token; "": none
	TLS      *tls.Config // nil: plaintext
	Resolver *net.Resolver
}

// port is the admin port of one relay.
type port struct {
	shown            string // as answers call it
	network, address string
	name             string // of the host, where address is one that the name stands for
}

// Addresses are the relays that are asked.
func (c *Client) Addresses() []string {
	all := make([]string, len(c.ports))
	for i := range c.ports {
		all[i] = c.ports[i].shown
	}
	return all
}

// Raw is the answer of a page as it is.
type Raw []byte

// Get asks each relay for a page.
func Get[T any](ctx context.Context, c *Client, path string) []Answer[T] {
	return each[T](ctx, c, http.MethodGet, path, nil)
}

// Post sends each relay the same JSON.
func Post[T any](ctx context.Context, c *Client, path string, body []byte) []Answer[T] {
	return each[T](ctx, c, http.MethodPost, path, body)
}

func each[T any](ctx context.Context, c *Client, method, path string, body []byte) []Answer[T] {
	answers := make([]Answer[T], len(c.ports))
	var wg sync.WaitGroup
	for i := range c.ports {
		wg.Go(func() {
			answers[i].Address = c.ports[i].shown
			answers[i].Err = c.ask(ctx, &c.ports[i], method, path, body, &answers[i].Value)
		})
	}
	wg.Wait()
	return answers
}

func (c *Client) ask(ctx context.Context, p *port, method, path string, body []byte, to any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base(p)+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	client := &http.Client{
		Transport: c.transport(p),
		// A relay sends nobody elsewhere, and a token is for the relay only.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return &UnreachableError{err}
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = resp.Body.Close() // it was read, or the error says why not
	if err != nil {
		return &UnreachableError{err}
	}
	if resp.StatusCode != http.StatusOK {
		return &RefusedError{resp.StatusCode, reason(data, resp.Status)}
	}
	if raw, ok := to.(*Raw); ok {
		*raw = data
		return nil
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("is this the admin port of a relay? %w", err)
	}
	return nil
}

// base is where the pages of a relay are.
func (c *Client) base(p *port) string {
	scheme, host := "http://", p.address
	if c.opts.TLS != nil {
		scheme = "https://"
	}
	if p.network == "unix" {
		host = "localhost"
	}
	return scheme + host
}

func (c *Client) transport(p *port) *http.Transport {
	t := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, p.network, p.address)
		},
	}
	if c.opts.TLS != nil {
		t.TLSClientConfig = c.opts.TLS.Clone()
		t.TLSClientConfig.ServerName = cmp.Or(t.TLSClientConfig.ServerName, p.name)
	}
	return t
}

// reason is why a relay refused.
func reason(body []byte, status string) string {
	var refusal struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &refusal) == nil && refusal.Error != "" {
		return refusal.Error
	}
	return cmp.Or(strings.TrimSpace(string(body[:min(len(body), 200)])), status)
}

// byDNS begins an address that stands for all addresses of its name.
const byDNS = "dns:"

// New works out the admin ports that a list names: HOST:PORT or unix:///PATH each, or dns:HOST:PORT for
// all addresses of a name, such as that of a headless service.
func New(ctx context.Context, list []string, opts Options) (*Client, error) {
	c := &Client{opts: opts}
	for _, item := range list {
		if err := c.add(ctx, strings.TrimSpace(item)); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.ports, func(a, b port) int { return strings.Compare(a.shown, b.shown) })
	c.ports = slices.CompactFunc(c.ports, func(a, b port) bool { return a.shown == b.shown })
	return c, nil
}

func (c *Client) add(ctx context.Context, item string) error {
	if name, is, err := sockets.Unix(item); is {
		if err == nil {
			c.ports = append(c.ports, port{shown: item, network: "unix", address: name})
		}
		return err
	}
	name, each := strings.CutPrefix(item, byDNS)
	host, number, err := net.SplitHostPort(name)
	if err != nil {
		return fmt.Errorf("%q is no address: expected HOST:PORT, dns:HOST:PORT or unix:///PATH", item)
	}
	if !each {
		c.ports = append(c.ports, port{shown: name, network: "tcp", address: name})
		return nil
	}
	resolver := c.opts.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	found, err := resolver.LookupHost(ctx, host)
	if err != nil {
		return err
	}
	for _, ip := range found {
		address := net.JoinHostPort(ip, number)
		c.ports = append(c.ports, port{shown: address, network: "tcp", address: address, name: host})
	}
	return nil
}
