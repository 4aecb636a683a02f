package relay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
)

// inForce is the configuration that the relay runs with. It is not changed: a reload
// brings another one.
type inForce struct {
	config  *config.Config
	yaml    []byte
	hash    string
	since   time.Time
	waiting []config.Change // keys that take effect after a restart
}

// hashLength is how much of the hash is shown: enough to tell configurations apart.
const hashLength = 12

func newInForce(cfg *config.Config, waiting []config.Change) (*inForce, error) {
	yaml, err := cfg.YAML()
	if err != nil {
		return nil, err
	}
	shared := *cfg
	shared.Node.ID = "" // the replicas of a fleet differ in it
	same, err := shared.YAML()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(same)
	return &inForce{
		config: cfg, yaml: yaml, hash: hex.EncodeToString(sum[:])[:hashLength], since: time.Now(), waiting: waiting,
	}, nil
}

// failure is why a configuration was not taken.
type failure struct {
	err error
	at  time.Time
}

// serveConfig shows the configuration in force. Comments above it say what of the file
// is not: keys that wait for a restart, and all of it if it cannot be used.
func (a adminPort) serveConfig(w http.ResponseWriter, _ *http.Request) {
	now, failed := a.relay.now.Load(), a.relay.failed.Load()
	var b bytes.Buffer
	fmt.Fprintf(&b, "# In force since %s, hash %s.\n", now.since.UTC().Format(time.RFC3339), now.hash)
	if failed != nil {
		fmt.Fprintf(&b, "# The configuration that the relay read at %s is not usable:\n", failed.at.UTC().Format(time.RFC3339))
		for line := range strings.Lines(failed.err.Error()) {
			fmt.Fprintf(&b, "#   %s\n", strings.TrimSpace(line))
		}
	}
	if len(now.waiting) > 0 {
		b.WriteString("# These keys have other values in the file and need a restart:\n")
		for _, c := range now.waiting {
			fmt.Fprintf(&b, "#   %s\n", c)
		}
	}
	b.Write(now.yaml)
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(b.Bytes()) // the client is gone if this fails
}
