package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
)

// adminAccess has who may ask the admin port (ACC-7). The zero value lets everybody in who reaches it.
type adminAccess struct {
	tls    *credentials.TLSServer    // nil: plaintext
	tokens *credentials.OperatorList // nil: no tokens are asked for
}

// openAdmin reads the files of the admin port.
func (r *Relay) openAdmin(cfg *config.Config) (err error) {
	a := &cfg.Admin
	if a.TLS != nil {
		if r.admin.tls, err = r.serverTLS(config.Listener{Name: "admin", TLS: a.TLS}, cfg.Server.TLSRefresh); err != nil {
			return fmt.Errorf("admin: %w", err)
		}
	}
	if a.TokensFile != "" {
		if r.admin.tokens, err = credentials.OpenOperatorList(a.TokensFile, r.log); err != nil {
			return fmt.Errorf("admin: %w", err)
		}
	}
	return nil
}

// close follows the files no longer.
func (a *adminAccess) close() {
	if a.tls != nil {
		a.tls.Close()
	}
	if a.tokens != nil {
		a.tokens.Close()
	}
}

// secure gives the listener that the admin port is served on.
func (a *adminAccess) secure(lis net.Listener) net.Listener {
	if a.tls == nil {
		return lis
	}
	return tls.NewListener(lis, a.tls.HTTPConfig())
}

var (
	errNoToken  = errors.New("this admin port asks for a token: send Authorization: Bearer and one of admin.tokens_file")
	errUnknown  = errors.New("the token is none of admin.tokens_file")
	errReadOnly = errors.New("this token is for looking only: admin.tokens_file says read")
	errMetrics  = errors.New("this token is for /metrics only: admin.tokens_file says metrics")
)

// wrongTokenPause is how long the answer to a wrong token takes, on its connection. An address has few of these.
const wrongTokenPause = time.Second

// operatorKey is where the context of a request has whose it is.
type operatorKey struct{}

// operatorOf says whose request it is: the name of its token, or that of its certificate. "" if nobody
// knows.
func operatorOf(req *http.Request) string {
	if name, ok := req.Context().Value(operatorKey{}).(string); ok {
		return name
	}
	if req.TLS != nil && len(req.TLS.PeerCertificates) > 0 {
		cert := req.TLS.PeerCertificates[0]
		if len(cert.URIs) > 0 {
			return cert.URIs[0].String()
		}
		return cert.Subject.String()
	}
	return ""
}

// admit lets requests through that have the token of an operator, if tokens are asked for. The probes
// need none: orchestrators have no place for a secret, and they say little.
func (a adminPort) admit(next http.Handler) http.Handler {
	tokens := a.relay.admin.tokens
	if tokens == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if isProbe(req) || admin.IsStatic(req) {
			next.ServeHTTP(w, req)
			return
		}
		token, err := credentials.BearerToken(req.Header.Values("Authorization"))
		operator, known := tokens.Find(token)
		known = known && err == nil
		looks := admin.LooksOnly(req)
		switch {
		case !known:
			a.relay.refusals.AdminRefused(req, "", refusals.NoToken)
			w.Header().Set("WWW-Authenticate", `Bearer realm="xdsrelay"`)
			if len(req.Header.Values("Authorization")) > 0 {
				retry.Sleep(req.Context(), wrongTokenPause)
				admin.Refuse(w, http.StatusUnauthorized, errUnknown)
				return
			}
			admin.Refuse(w, http.StatusUnauthorized, errNoToken)
		case operator.Role == credentials.RoleMetrics && (!looks || req.URL.Path != "/metrics"):
			a.relay.refusals.AdminRefused(req, operator.Name, refusals.OtherRole)
			admin.Refuse(w, http.StatusForbidden, errMetrics)
		case !looks && operator.Role != credentials.RoleAct:
			a.relay.refusals.AdminRefused(req, operator.Name, refusals.OtherRole)
			admin.Refuse(w, http.StatusForbidden, errReadOnly)
		default:
			next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), operatorKey{}, operator.Name)))
		}
	})
}

// admitted has pages worked on in turn for operators that may ask. The pause after a wrong token is no part of a turn.
func (a adminPort) admitted(pages http.Handler) http.Handler { return a.admit(inTurn(pages)) }

// isProbe reports whether a request is a probe of an orchestrator.
func isProbe(req *http.Request) bool {
	switch req.URL.Path {
	case "/livez", "/healthz", "/readyz":
		return req.Method == http.MethodGet || req.Method == http.MethodHead
	}
	return false
}
