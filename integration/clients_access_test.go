package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/controlplane"
	"github.com/xdsrelay/xdsrelay/internal/pkitest"
)

// withCertificate has a bootstrap connect by mutual TLS, by the server's name in its certificate.
func withCertificate(t *testing.T, bootstrap []byte, dir *pkitest.Folder, name string) []byte {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal(bootstrap, &file); err != nil {
		t.Fatal(err)
	}
	server := file["xds_servers"].([]any)[0].(map[string]any)
	at := netip.MustParseAddrPort(server["server_uri"].(string))
	server["server_uri"] = net.JoinHostPort("localhost", fmt.Sprint(at.Port()))
	server["channel_creds"] = []any{map[string]any{"type": "tls", "config": map[string]any{
		"ca_certificate_file": dir.Path("fleet.crt"), "certificate_file": dir.Path(name + ".crt"), "private_key_file": dir.Path(name + ".key"),
	}}}
	encoded, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// gRPC clients that the relay knows by their certificates get what the access rules allow them. To one
// that may not have a listener it does not exist: the state of the world has no word for more, and the
// client waits as for any name that there is not. Its other channels go on. One without a certificate of
// the fleet gets nothing. Only grpc-go takes certificates in its bootstrap (gRFC A65)
// among the clients that the suite has.
func TestGRPCClientsAccess_ACC1_ACC2(t *testing.T) {
	t.Parallel() // most of it is waiting
	dir, fleet, stranger := pkitest.NewFolder(t), pkitest.NewAuthority(t, "fleet"), pkitest.NewAuthority(t, "stranger")
	server := config.ServerTLS{ClientCAFile: dir.PutCA("fleet", fleet)}
	server.CertFile, server.KeyFile = dir.PutPair("relay", fleet.Server("localhost"))
	for _, who := range []string{"shop", "other"} {
		dir.PutPair(who, fleet.Client(who, pkitest.URI("spiffe://td/"+who)))
	}
	dir.PutPair("stranger", stranger.Client("shop", pkitest.URI("spiffe://td/shop")))
	kind := clientKinds()[0]
	w := newWorld(t, kind, xdsServer{
		relayed: true, up: upDeltaADS, plane: func(testing.TB) managementServer { return controlplane.New() },
		settings: func(c *config.Config) {
			c.Server.TLS = &server
			c.Access.Rules = []config.AccessRule{
				{Name: "own", Match: `type == lds && name == "private" && peer.spiffe != "spiffe://td/shop"`, Effect: config.Deny},
				{Name: "all", Match: "true", Effect: config.Allow},
			}
		},
	}, naming{})
	for _, id := range []string{"private", "public"} {
		w.set(t, w.names.endpoints(id, w.backends["a"]), w.names.cluster(id, id), w.names.route(id, id), w.names.listener(id, id))
	}
	clients := make(map[string]rpcClient)
	for _, who := range []string{"shop", "other", "stranger"} {
		clients[who] = kind.start(t, withCertificate(t, w.names.bootstrap(t, who, w.server), dir, who), rpcTimeout)
	}
	for _, tt := range []struct {
		who, listener string
		served        bool
	}{
		{"shop", "private", true},
		{"shop", "public", true},
		{"other", "private", false},
		{"other", "public", true}, // its stream goes on
		{"stranger", "public", false},
	} {
		if o := clients[tt.who].call(w.names.target(tt.listener)); (o.Code == codes.OK) != tt.served || (o.Backend == "a") != tt.served {
			t.Errorf("ACC-2: %s calls %s: %v: %s %s", tt.who, tt.listener, o.Code, o.Message, o.Backend)
		}
	}
	if _, page := w.relay.get(t, "/clients"); !strings.Contains(page, "spiffe://td/shop") || !strings.Contains(page, "spiffe://td/other") {
		t.Errorf("ACC-1: /clients has\n%s", page)
	}
	w.relay.consistent(t)
}
