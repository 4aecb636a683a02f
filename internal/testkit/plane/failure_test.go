package plane_test

import (
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// TestFail_ERR1 has those told who name the resource. Lists that are whole stay so.
func TestFail_ERR1(t *testing.T) {
	p := plane.Start(t, plane.Behaviour{})
	p.Set(cluster("a", 0))
	named, all := openDelta(t, p), openDelta(t, p)
	named.subscribe(plane.Cluster, "a")
	named.ack(named.next("a"))
	all.subscribe(plane.Cluster)
	all.ack(all.next("a"))
	state, err := dial(t, p).StreamAggregatedResources(t.Context())
	if err == nil {
		err = state.Send(&discovery.DiscoveryRequest{TypeUrl: plane.Cluster, ResourceNames: []string{"a"}})
	}
	if err == nil {
		_, err = state.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Fail(plane.Failure{Key: plane.Key{TypeURL: plane.Cluster, Name: "a"}, Code: 14, Message: "gone fishing"})
	unanswered := 0
	if _, held := wait.Until(10*time.Second, func() bool { _, unanswered = p.Progress(); return unanswered == 2 }); !held {
		t.Errorf("%d responses are unanswered, not the two with errors", unanswered)
	}
	told := named.next("").GetResourceErrors()
	list, err := state.Recv()
	if err != nil {
		t.Fatal(err)
	}
	for _, errors := range [][]*discovery.ResourceError{told, list.GetResourceErrors()} {
		if len(errors) != 1 || errors[0].GetResourceName().GetName() != "a" || errors[0].GetErrorDetail().GetMessage() != "gone fishing" {
			t.Errorf("the errors are %v", errors)
		}
	}
	if len(list.GetResources()) != 1 {
		t.Errorf("the list is %v", list)
	}
	all.silent(p)
}
