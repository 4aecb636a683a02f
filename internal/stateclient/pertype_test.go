package stateclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

func TestVAR1_oneStreamPerType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		var mu sync.Mutex
		var opened []string
		c := New(serve(t, s), xdsclient.Options{PerType: true, OnStream: func(typeURL string) {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, typeURL)
		}})
		c.Subscribe(clusterType)
		running(t, c)
		expect(t, "requests", []string{"cds: Cluster []"}, s.next())
		c.Subscribe(endpointType, "a")
		expect(t, "requests for a type that is added", []string{"eds: ClusterLoadAssignment [a]"}, s.next())
		s.send(t, "cds", response(clusterType, "1", "a@1"))
		untyped := response(endpointType, "2", "a@1")
		untyped.TypeUrl = "" // its stream tells the type
		s.send(t, "eds", untyped)
		expect(t, "answers", []string{"cds: Cluster [] v=1 n=n1", "eds: ClusterLoadAssignment [a] v=2 n=n2"}, s.next())
		expect(t, "held", 2, c.Len(clusterType)+c.Len(endpointType))
		expect(t, "streams opened", []string{clusterType, endpointType}, opened)

		s.send(t, "eds", response(clusterType, "3", "a@1"))
		expect(t, "ACK-6 another type", []string{
			"eds: ClusterLoadAssignment [a] v=2 nack=n3(a response for a type that was not requested on this stream)",
		}, s.next())
	})
}

func TestRun_endsWithTheFirstStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{PerType: true})
		c.Subscribe(clusterType)
		c.Subscribe(endpointType, "a")
		run := make(chan error)
		go func() { run <- c.Run(t.Context()) }()
		synctest.Wait()
		s.stream("eds").end <- status.Error(codes.ResourceExhausted, "too many")
		err := <-run
		which, ok := errors.AsType[*xdsclient.StreamError](err)
		if !ok || which.TypeURL != endpointType || status.Code(err) != codes.ResourceExhausted {
			t.Errorf("Run: %v", err)
		}
		// Again, without any type at first.
		c = New(serve(t, s), xdsclient.Options{PerType: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestOPS2_streamsComeBackByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{PerType: true})
		c.Subscribe(clusterType)
		c.Subscribe(endpointType, "a")
		enough := errors.New("enough")
		var reasons []string
		done := make(chan error)
		go func() {
			done <- c.Follow(t.Context(), xdsclient.Backoff{}, func(reason error, _ time.Duration) error {
				if reasons = append(reasons, reason.Error()); len(reasons) == 2 {
					return enough
				}
				return nil
			})
		}()
		requests := s.next()
		slices.Sort(requests)
		expect(t, "requests", []string{"cds: Cluster []", "eds: ClusterLoadAssignment [a]"}, requests)
		s.send(t, "cds", response(clusterType, "1", "a@1"))
		s.next()
		s.stream("cds").end <- status.Error(codes.Unavailable, "going away")
		<-time.After(time.Minute)
		expect(t, "ACK-5 requests", []string{"cds: Cluster [] v=1"}, s.next())
		s.stream("cds").end <- nil
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("Follow: %v", err)
		}
		expect(t, "reasons", []string{"cds: rpc error: code = Unavailable desc = going away", "cds: the server ended the stream: EOF"}, reasons)
	})
}

func TestServes(t *testing.T) {
	const things = "type.googleapis.com/example.Thing"
	ads, perType := New(nil, xdsclient.Options{}), New(nil, xdsclient.Options{PerType: true})
	rest := NewREST(nil, "", xdsclient.Options{})
	for _, tt := range []struct {
		c    *xdsclient.Client
		url  string
		want string
	}{
		{ads, clusterType, ""},
		{ads, things, ""},
		{ads, resource.VirtualHostType, "vhds cannot be asked for: there is no state-of-the-world service for it"},
		{perType, clusterType, ""},
		{perType, things, things + " cannot be asked for: there is no state-of-the-world per-type service for it"},
		{perType, resource.VirtualHostType, "vhds cannot be asked for: there is no state-of-the-world service for it"},
		{rest, clusterType, ""},
		{rest, things, things + " cannot be asked for: there is no REST service for it"},
		{rest, resource.VirtualHostType, "vhds cannot be asked for: there is no REST service for it"},
	} {
		if err := tt.c.Serves(tt.url); tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%s: %v, want %q", tt.url, err, tt.want)
		}
	}
	for _, c := range []*xdsclient.Client{perType, rest} {
		c.Subscribe(things, "a")
		if _, ok := errors.AsType[*xdsclient.UnservedError](c.Follow(t.Context(), xdsclient.Backoff{}, nil)); !ok {
			t.Error("a type without a service is followed")
		}
	}
}
