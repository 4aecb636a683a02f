// Package adminclient asks the admin ports of several relays, all at once.
//
// It takes addresses and gives an answer for each. It knows the form of requests and errors, not
// what is asked: commands of cmd/xdsrelay do.
package adminclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
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

// Get asks each relay for a page.
func Get[T any](ctx context.Context, addresses []string, path string) []Answer[T] {
	return each[T](ctx, addresses, http.MethodGet, path, nil)
}

// Post sends each relay the same JSON.
func Post[T any](ctx context.Context, addresses []string, path string, body []byte) []Answer[T] {
	return each[T](ctx, addresses, http.MethodPost, path, body)
}

func each[T any](ctx context.Context, addresses []string, method, path string, body []byte) []Answer[T] {
	answers := make([]Answer[T], len(addresses))
	var wg sync.WaitGroup
	for i, address := range addresses {
		wg.Go(func() {
			answers[i].Address = address
			answers[i].Err = ask(ctx, address, method, path, body, &answers[i].Value)
		})
	}
	wg.Wait()
	return answers
}

func ask(ctx context.Context, address, method, path string, body []byte, to any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
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
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("is this the admin port of a relay? %w", err)
	}
	return nil
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

// Addresses works out the admin ports that a list names: HOST:PORT each, or dns:HOST:PORT for all
// addresses of a name, such as that of a headless service.
func Addresses(ctx context.Context, list []string, resolver *net.Resolver) ([]string, error) {
	var all []string
	for _, item := range list {
		name, each := strings.CutPrefix(strings.TrimSpace(item), byDNS)
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, fmt.Errorf("%q is no address: expected HOST:PORT", item)
		}
		if !each {
			all = append(all, name)
			continue
		}
		found, err := resolver.LookupHost(ctx, host)
		if err != nil {
			return nil, err
		}
		for _, ip := range found {
			all = append(all, net.JoinHostPort(ip, port))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
