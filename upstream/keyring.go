package upstream

import (
	"cmp"
	"log/slog"

	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
	"github.com/xdsrelay/xdsrelay/internal/tokenfile"
)

// keyring has the files with which the relay shows control planes who it is. They may be replaced
// at any time.
type keyring struct {
	tls   *tlsfiles.Client // nil in plain text
	token *tokenfile.File  // nil: no bearer token
}

// openKeyring reads the files that cfg names. The keyring must be closed.
func openKeyring(cfg *Config) (k keyring, err error) {
	if cfg.TLS != nil {
		files := *cfg.TLS
		if files.Report == nil {
			files.Report = func(err error) { reportFiles(cfg.Logger, err) }
		}
		if k.tls, err = tlsfiles.NewClient(files); err != nil {
			return k, err
		}
	}
	if file := cfg.Credentials.TokenFile; file != "" {
		if k.token, err = tokenfile.Open(file, cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))); err != nil {
			k.close()
			return k, err
		}
	}
	return k, nil
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

// reportFiles tells the operator what became of changed TLS files.
func reportFiles(log *slog.Logger, err error) {
	if err != nil {
		log.Error("TLS files cannot be used, keeping the last good ones", "error", err)
		return
	}
	log.Info("TLS files taken up")
}
