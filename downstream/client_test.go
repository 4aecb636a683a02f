package downstream

import (
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

type (
	request  = discovery.DeltaDiscoveryRequest
	resource = discovery.Resource
	response = discovery.DeltaDiscoveryResponse
)

// client is a client's stream.
type client struct {
	inbox[response]

	stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

// read begins to take responses.
func (c *client) read() {
	c.reading.Go(func() {
		for {
			r, err := c.stream.Recv()
			c.mu.Lock()
			if err != nil {
				c.err, c.ended = err, time.Now()
				c.mu.Unlock()
				return
			}
			c.got, c.all = append(c.got, r), append(c.all, r)
			c.mu.Unlock()
			if c.acking {
				c.ack(r)
			}
		}
	})
}

func (c *client) send(r *request) {
	_ = c.stream.Send(r) // what the stream ended with is told by Recv
}

// subscribe and unsubscribe change subscriptions, without an ACK.
func (c *client) subscribe(typeURL string, names ...string) {
	c.send(&request{TypeUrl: typeURL, ResourceNamesSubscribe: names})
}

func (c *client) unsubscribe(typeURL string, names ...string) {
	c.send(&request{TypeUrl: typeURL, ResourceNamesUnsubscribe: names})
}

func (c *client) ack(r *response) {
	c.send(&request{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce})
}

func (c *client) nack(r *response, message string) {
	c.send(&request{TypeUrl: r.TypeUrl, ResponseNonce: r.Nonce, ErrorDetail: &status.Status{
		Code: int32(codes.InvalidArgument), Message: message,
	}})
}

// wants holds what came since the last time to what was to come, in order.
func (c *client) wants(want ...string) []*response {
	c.h.Helper()
	return c.told(tell, want)
}

// holds is what a client holds that was sent these responses: versions by name.
func holds(responses []*response) map[string]string {
	held := map[string]string{}
	for _, r := range responses {
		for _, x := range r.Resources {
			held[x.Name] = x.Version
		}
		for _, name := range r.RemovedResources {
			delete(held, name)
		}
	}
	return held
}

// tell writes a response in one line: +name=version for a resource, -name for a
// removal, !name=code for an error, each sorted.
func tell(r *response) string {
	var added, removed []string
	for _, x := range r.Resources {
		added = append(added, "+"+x.Name+"="+x.Version)
	}
	for _, name := range r.RemovedResources {
		removed = append(removed, "-"+name)
	}
	slices.Sort(added)
	slices.Sort(removed)
	failed := tellErrors(r.ResourceErrors)
	line := append([]string{r.TypeUrl[strings.LastIndexByte(r.TypeUrl, '.')+1:]}, added...)
	return strings.Join(append(append(line, removed...), failed...), " ")
}

func tellErrors(errs []*discovery.ResourceError) []string {
	failed := make([]string, 0, len(errs))
	for _, e := range errs {
		failed = append(failed, "!"+e.ResourceName.GetName()+"="+codes.Code(e.ErrorDetail.GetCode()).String())
	}
	slices.Sort(failed)
	return failed
}

func node(id string) *corev3.Node { return &corev3.Node{Id: id, Cluster: "cluster of " + id} }
