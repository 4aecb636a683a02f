package bootstrap

import "encoding/json"

// GRPC gives the bootstrap of a gRPC client, in JSON. A client goes to the servers in order.
func (b *Bootstrap) GRPC() (string, error) {
	type credentials struct {
		Type   string            `json:"type"`
		Config map[string]string `json:"config,omitempty"`
	}
	type xdsServer struct {
		URI         string        `json:"server_uri"`
		Credentials []credentials `json:"channel_creds"`
		Features    []string      `json:"server_features"`
	}
	var text struct {
		Servers []xdsServer `json:"xds_servers"`
		Node    struct {
			ID      string `json:"id"`
			Cluster string `json:"cluster,omitempty"`
			// grpc-js needs one.
			Locality struct{} `json:"locality"`
		} `json:"node"`
	}
	text.Node.ID, text.Node.Cluster = b.id, b.cluster
	for _, s := range []server{b.relays, b.plane} {
		creds := credentials{Type: "insecure"}
		if s.tls != nil {
			creds = credentials{Type: "tls", Config: make(map[string]string)}
			for key, file := range map[string]string{"ca_certificate_file": s.tls.ca, "certificate_file": s.tls.cert, "private_key_file": s.tls.key} {
				if file != "" {
					creds.Config[key] = file
				}
			}
		}
		for _, a := range s.addresses {
			text.Servers = append(text.Servers, xdsServer{a, []credentials{creds}, []string{"xds_v3"}})
		}
	}
	encoded, err := json.MarshalIndent(text, "", "  ")
	return string(encoded) + "\n", err
}
