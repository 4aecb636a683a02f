package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
)

// adminFlags say which relays to ask, and how.
type adminFlags struct {
	admin     []string
	tokenFile string
	token     bool // one is sent

	// tls is set by the flag of that name; a file does it too.
	tls                       bool
	caFile, certFile, keyFile string
}

// add gives a command the flags.
func (o *adminFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.admin, "admin", nil, "`address` of a relay's admin port: HOST:PORT, unix:///PATH, or dns:HOST:PORT for all addresses\nof a name; repeatable (default $"+config.AdminVariable+", else 127.0.0.1:19100)")
	flags.StringVar(&o.tokenFile, "token-file", "", "`file` with the token that the admin ports ask for (default $"+config.TokenVariable+")")
	flags.BoolVar(&o.tls, "tls", false, "the admin ports have TLS; the flags for files imply it")
	flags.StringVar(&o.caFile, "ca-file", "", "`file` with the CA certificates of the admin ports (default those of the system)")
	flags.StringVar(&o.certFile, "cert-file", "", "`file` with the certificate to show the admin ports")
	flags.StringVar(&o.keyFile, "key-file", "", "`file` with the key of that certificate")
	cli.Complete(cmd, "admin")
	for _, name := range []string{"token-file", "ca-file", "cert-file", "key-file"} {
		cli.Must(cmd.MarkFlagFilename(name))
	}
}

// client asks the relays that the flags name.
func (o *adminFlags) client(ctx context.Context) (*adminclient.Client, error) {
	list := o.admin
	if len(list) == 0 {
		if list = strings.Split(os.Getenv(config.AdminVariable), ","); list[0] == "" {
			list = []string{"127.0.0.1:19100"}
		}
	}
	var opts adminclient.Options
	file, source := o.tokenFile, "--token-file"
	if file == "" {
		file, source = os.Getenv(config.TokenVariable), config.TokenVariable
	}
	var err error
	if file != "" {
		if opts.Token, err = credentials.ReadToken(file); err != nil {
			return nil, cli.Usage(fmt.Errorf("%s: %s: %w", source, file, err), "the file has the token and nothing else")
		}
		o.token = true
	}
	if opts.TLS, err = o.secure(); err != nil {
		return nil, err
	}
	relays, err := adminclient.New(ctx, list, opts)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--admin: %w", err), "for a relay, use the address of admin.listen")
	}
	return relays, nil
}

// remedy is a hint for what a relay answered, or for that it did not; "" if there is none.
func (o *adminFlags) remedy(err error) string {
	refused, answered := errors.AsType[*adminclient.RefusedError](err)
	switch text := err.Error(); {
	case answered && refused.Status == http.StatusUnauthorized && !o.token:
		return "--token-file or $" + config.TokenVariable + " names a file with a token"
	case answered && refused.Status == http.StatusUnauthorized:
		return "the relay does not know the token: does it come from another relay, or was it replaced?"
	case answered && refused.Status == http.StatusForbidden:
		return "its role in admin.tokens_file does not allow that: to look at more than /metrics takes read, to change anything act"
	case strings.Contains(text, "HTTP request to an HTTPS server"):
		return "the admin port has TLS: add --tls, and --ca-file if its CA is not one of the system"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "the admin port has no TLS: leave out --tls and the flags for files"
	case strings.Contains(text, "certificate signed by unknown authority"):
		return "--ca-file names the CA of the admin port"
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"):
		return "the admin port asks for a certificate: --cert-file and --key-file show one"
	case unreachable(err):
		return "does a relay run there, with this admin.listen?"
	}
	return ""
}

// secure gives how to connect with TLS; nil: in plaintext.
func (o *adminFlags) secure() (*tls.Config, error) {
	if !o.tls && o.caFile == "" && o.certFile == "" && o.keyFile == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.caFile != "" {
		data, err := os.ReadFile(o.caFile)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--ca-file: %w", err), "")
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(data) {
			return nil, cli.Usage(fmt.Errorf("--ca-file: %s has no certificate in PEM form", o.caFile), "")
		}
	}
	if o.certFile != "" || o.keyFile != "" {
		cert, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("--cert-file and --key-file: %w", err), "a certificate needs its key, and a key its certificate")
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}
