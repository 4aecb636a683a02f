package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// withCertificate has a bootstrap connect by mutual TLS, by the server's name in its certificate.
func withCertificate(t *testing.T, bootstrap []byte, dir *pki.Folder, name string) []byte {
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

// overSocket has a bootstrap connect through a unix socket.
func overSocket(t *testing.T, bootstrap []byte, socket string) []byte {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal(bootstrap, &file); err != nil {
		t.Fatal(err)
	}
	file["xds_servers"].([]any)[0].(map[string]any)["server_uri"] = "unix:" + socket
	encoded, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// knownClients is a relay that knows gRPC clients by their certificates, and at a unix socket by their
// user.
type knownClients struct {
	*world

	dir    *pki.Folder
	socket string
}

func newKnownClients(t *testing.T, kind clientKind) *knownClients {
	t.Helper()
	folder, err := os.MkdirTemp("", "xds") //nolint:usetesting // the path of a socket is short, and tests have long names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) }) // it is in the folder for temporary files
	k := &knownClients{dir: pki.NewFolder(t), socket: filepath.Join(folder, "xds.sock")}
	fleet, stranger := pki.NewAuthority(t, "fleet"), pki.NewAuthority(t, "stranger")
	server := config.ServerTLS{ClientCAFile: k.dir.PutCA("fleet", fleet)}
	server.CertFile, server.KeyFile = k.dir.PutPair("relay", fleet.Server("localhost"))
	for _, who := range []string{"shop", "other"} {
		k.dir.PutPair(who, fleet.Client(who, pki.URI("spiffe://td/"+who)))
	}
	k.dir.PutPair("stranger", stranger.Client("shop", pki.URI("spiffe://td/shop")))
	k.world = newWorld(t, kind, xdsServer{
		relayed: true, up: upDeltaADS, plane: func(testing.TB) managementServer { return gocontrolplane.New() },
		settings: func(c *config.Config) {
			local := config.DefaultListener()
			local.Name, local.Listen = "local", "unix://"+k.socket
			c.Server.TLS, c.Server.Listeners = &server, []config.Listener{local}
			who := fmt.Sprintf(`(peer.spiffe == "spiffe://td/shop" || peer.uid == %d && node.id == "shop")`, os.Getuid())
			c.Access.Rules = []config.AccessRule{
				{Name: "own", Match: `type == lds && name == "private" && !` + who, Effect: config.Deny},
				{Name: "all", Match: "true", Effect: config.Allow},
			}
			c.Access.Verify = []config.VerifyRule{{
				Name: "own-node", Require: fmt.Sprintf(`peer.spiffe == "spiffe://td/" + node.id || peer.uid == %d && node.id != "liar"`, os.Getuid()),
			}}
		},
	}, naming{})
	for _, id := range []string{"private", "public"} {
		n := k.names
		k.set(t, n.endpoints(id, k.backends["a"]), n.cluster(id, id), n.route(id, id), n.listener(id, id))
	}
	return k
}

// bootstrap is that of a client with a node and a certificate, or with its user if its kind takes no
// certificates.
func (k *knownClients) bootstrap(t *testing.T, node, certificate string) []byte {
	t.Helper()
	plain := k.names.bootstrap(t, node, k.server)
	if k.kind.certificates {
		return withCertificate(t, plain, k.dir, certificate)
	}
	return overSocket(t, plain, k.socket)
}

// gRPC clients of four languages get what the access rules allow them, whom the relay knows by their
// certificates (grpc-js by its user, since it has no TLS towards xDS servers). To one that may not have a
// listener it does not exist: the state of the world has no word for more, and the client waits as for any
// name that there is not. Its other channels go on. One that presents a node that is not its own gets
// nothing, and neither does one without a certificate of the fleet.
func TestGRPCClientsAccess_ACC1_ACC2_ACC5(t *testing.T) {
	t.Parallel() // most of it is waiting
	r := newReport(t)
	for _, kind := range clientKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r.require(t, kind.name, kind.missing)
			k := newKnownClients(t, kind)
			clients := make(map[string]rpcClient)
			for _, who := range []struct{ name, node, certificate string }{
				{"shop", "shop", "shop"}, {"other", "other", "other"}, {"liar", "liar", "other"}, {"stranger", "shop", "stranger"},
			} {
				if who.name == "stranger" && !kind.certificates {
					continue // each process of this machine that can use the socket has a user
				}
				clients[who.name] = kind.start(t, k.bootstrap(t, who.node, who.certificate), rpcTimeout)
				k.version = clients[who.name].version()
			}
			r.ran(t, k.client, "ACC-1 ACC-2 ACC-5 access rules")
			for _, tt := range []struct {
				who, listener string
				served        bool
			}{
				{"shop", "private", true},
				{"shop", "public", true},
				{"other", "private", false},
				{"other", "public", true}, // its stream goes on
				{"liar", "public", false},
				{"stranger", "public", false},
			} {
				if clients[tt.who] == nil {
					continue
				}
				if o := clients[tt.who].call(k.names.target(tt.listener)); (o.Code == codes.OK) != tt.served || (o.Backend == "a") != tt.served {
					t.Errorf("ACC-2: %s calls %s: %v: %s %s", tt.who, tt.listener, o.Code, o.Message, o.Backend)
				}
			}
			if !strings.Contains(k.relay.log.String(), "access.verify refuses a client's node") {
				t.Error("ACC-5: nobody was refused for the sake of a node")
			}
			known := []string{"spiffe://td/shop", "spiffe://td/other"}
			if !kind.certificates {
				known = []string{`"listener": "local"`}
			}
			if _, page := k.relay.get(t, "/clients"); slices.ContainsFunc(known, func(s string) bool { return !strings.Contains(page, s) }) {
				t.Errorf("ACC-1: /clients has\n%s", page)
			}
			k.relay.consistent(t)
		})
	}
}
