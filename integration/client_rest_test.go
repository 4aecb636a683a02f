package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// restClient polls (VAR-5): one poll at a time for each type, the next one at once
// if the server holds polls, and soon if it does not.
type restClient struct {
	holdings

	url  string
	http *http.Client
	// keepsVersion presents the version that it has when it asks for more names too,
	// as Envoy does. A server that goes by the version alone would leave it without.
	keepsVersion bool

	ctx      context.Context // nil: not connected; guarded by mu, as the rest
	cancel   context.CancelFunc
	polls    *sync.WaitGroup
	polled   map[string]func() // by type: ends the poll that is under way
	accepted map[string]string
	err      error
}

// pause between polls that the server does not hold.
const pollInterval = 5 * time.Millisecond

func newRESTClient(t testing.TB, addr, node string) *restClient {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: len(services)}
	c := &restClient{
		holdings: newHoldings(node), url: "http://" + addr + "/v3/discovery:",
		http: &http.Client{Transport: transport}, accepted: make(map[string]string),
	}
	t.Cleanup(func() {
		c.disconnect()
		transport.CloseIdleConnections()
	})
	return c
}

func (c *restClient) connect(warm bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginLocked(warm)
	if !warm {
		clear(c.accepted)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.polls, c.polled, c.err = new(sync.WaitGroup), make(map[string]func()), nil
	for typeURL, subs := range c.subs {
		if len(subs) > 0 {
			c.startLocked(typeURL)
		}
	}
	return nil
}

// startLocked begins to poll for a type.
func (c *restClient) startLocked(typeURL string) {
	ctx := c.ctx
	c.polled[typeURL] = func() {}
	c.polls.Go(func() {
		for ctx.Err() == nil {
			if err := c.poll(ctx, typeURL); err != nil && ctx.Err() == nil {
				c.mu.Lock()
				c.err = err
				c.bump()
				c.mu.Unlock()
				return
			}
		}
	})
}

func (c *restClient) disconnect() {
	c.mu.Lock()
	cancel, polls := c.cancel, c.polls
	c.ctx, c.cancel = nil, nil
	c.mu.Unlock()
	c.resume()
	if cancel != nil {
		cancel()
		polls.Wait()
		// One that leads to a server that is gone would fail a poll of the next connect.
		c.http.CloseIdleConnections()
	}
}

func (c *restClient) connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ctx != nil && c.err == nil
}

func (c *restClient) subscribe(typeURL string, sub, unsub []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wantLocked(typeURL, sub, unsub)
	if len(sub) > 0 && !c.keepsVersion {
		delete(c.accepted, typeURL)
	}
	if c.ctx == nil {
		return
	}
	if end := c.polled[typeURL]; end != nil {
		end()
	} else if len(c.subs[typeURL]) > 0 {
		c.startLocked(typeURL)
	}
}

// holdACKs does nothing: a poll has no ACK.
func (*restClient) holdACKs(string) {}

func (*restClient) releaseACKs(string) {}

// poll asks once. What came for names that were changed meanwhile is not taken:
// the next poll asks for all of them.
func (c *restClient) poll(ctx context.Context, typeURL string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.open(ctx.Done())
	c.mu.Lock()
	c.polled[typeURL] = cancel
	q := &discovery.DiscoveryRequest{
		Node: c.nodeProto(nil), TypeUrl: typeURL, VersionInfo: c.accepted[typeURL],
		ResourceNames: slices.Sorted(maps.Keys(c.subs[typeURL])),
	}
	c.mu.Unlock()
	if len(q.GetResourceNames()) == 0 { // would mean "*"
		<-ctx.Done()
		return nil
	}
	r, err := c.post(ctx, q)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	case r == nil:
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
		return nil
	}
	c.open(ctx.Done())
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() == nil {
		c.answerLocked(q, r)
	}
	return nil
}

func (c *restClient) answerLocked(q *discovery.DiscoveryRequest, r *discovery.DiscoveryResponse) {
	typeURL := q.GetTypeUrl()
	c.counts[typeURL]++
	if r.GetTypeUrl() != typeURL {
		c.faultLocked("a response of type %q to a poll for %q", r.GetTypeUrl(), typeURL)
		return
	}
	if !c.takeSotwLocked(r, false) && r.GetVersionInfo() == q.GetVersionInfo() {
		c.faultLocked("REST-1: a poll for %s with the current version %q is answered", typeURL, r.GetVersionInfo())
	}
	c.accepted[typeURL] = r.GetVersionInfo()
	c.bump()
}

// post gives the response, or nil for 304.
func (c *restClient) post(ctx context.Context, q *discovery.DiscoveryRequest) (*discovery.DiscoveryResponse, error) {
	body, err := protojson.Marshal(q)
	if err != nil {
		return nil, err
	}
	url := c.url + serviceOf(q.GetTypeUrl()).path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode == http.StatusNotModified:
		return nil, nil
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s: %s", url, answer.Status, text)
	}
	r := new(discovery.DiscoveryResponse)
	if err := protojson.Unmarshal(text, r); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %q", url, text), err)
	}
	return r, nil
}
