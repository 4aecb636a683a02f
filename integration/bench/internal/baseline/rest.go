package baseline

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
)

// ServeREST answers polls on lis until Close, and closes it. Every poll for the same path is answered at
// once, with the same bytes: all that there is. What it takes is what net/http and the machine take.
func (s *Server) ServeREST(lis net.Listener) error {
	if err := s.rest.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// polls has a path for each type.
func (s *Server) polls() *http.ServeMux {
	mux := http.NewServeMux()
	for path, typeURL := range map[string]string{"clusters": content.ClusterType, "endpoints": content.EndpointType} {
		mux.HandleFunc("POST /v3/discovery:"+path, func(w http.ResponseWriter, _ *http.Request) {
			text, err := s.text(typeURL)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			_, _ = w.Write(text) // a client that has gone is no matter of the server's
		})
	}
	return mux
}

// text is the answer to a poll for a type.
func (s *Server) text(typeURL string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[typeURL]
	if t == nil {
		return nil, fmt.Errorf("nothing of type %q is served", typeURL)
	}
	if t.text != nil {
		return t.text, nil
	}
	all := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: strconv.Itoa(t.version), Nonce: "n" + strconv.Itoa(t.version)}
	for item, revision := range t.revisions {
		r, err := t.set.Resource(item, revision)
		if err != nil {
			return nil, err
		}
		all.Resources = append(all.Resources, r.GetResource())
	}
	var err error
	t.text, err = protojson.Marshal(all)
	return t.text, err
}
