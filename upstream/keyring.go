package upstream

import (
	"cmp"
	"log/slog"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
)

// keyring has the certificates and tokens that the relay shows control planes, from files and from Workload
// APIs. They may be replaced at any time.
type keyring struct {
	tls   *credentials.TLSClient // nil in plain text
	token bearer                 // nil: no bearer token
}

// bearer is where a bearer token comes from. Any goroutine may call its methods.
type bearer interface {
	// Token gives the token as it is now. The error says why there is none.
	Token() (string, error)
	// Lately lists the token and the one that it replaced, as far as there are.
	Lately() []string
	// Close ends the following of the token.
	Close()
}

// openKeyring reads the files that cfg names. The keyring must be closed.
func openKeyring(cfg *Config) (k keyring, err error) {
	if cfg.TLS != nil {
		files := *cfg.TLS
		if files.Report == nil {
			files.Report = func(err error) { reportFiles(cfg.Logger, err) }
		}
		if k.tls, err = credentials.NewTLSClient(files); err != nil {
			return k, err
		}
	}
	if k.token, err = openToken(cfg); err != nil {
		k.close()
		return k, err
	}
	return k, nil
}

// openToken begins to follow the bearer token of cfg; nil: it has none.
func openToken(cfg *Config) (bearer, error) {
	if file := cfg.Credentials.TokenFile; file != "" {
		f, err := credentials.OpenTokenFile(file, cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)))
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	if b := cfg.Credentials.SPIFFE; b != nil {
		t, err := b.Open()
		if err != nil {
			return nil, err
		}
		return t, nil
	}
	return nil, nil //nolint:nilnil // the comment says so
}

// close follows the files no longer.
func (k keyring) close() {
	if k.tls != nil {
		k.tls.Close()
	}
	if k.token != nil {
		k.token.Close()
	}
}

// reportFiles tells the operator whether changed TLS files are used.
func reportFiles(log *slog.Logger, err error) {
	if err != nil {
		log.Error("TLS files cannot be used, keeping the last good ones", "error", err)
		return
	}
	log.Info("TLS files taken up")
}
