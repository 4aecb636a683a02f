package relay

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
)

// adminHeaders have browsers keep nothing of what the admin port shows, run nothing in it, and show it in no other page.
// Profiles bring a style of their own.
var adminHeaders = map[string]string{
	"Cache-Control":           "no-store",
	"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	"Referrer-Policy":         "no-referrer",
	"X-Content-Type-Options":  "nosniff",
	"X-Frame-Options":         "DENY",
}

// door lets requests to the admin port through that name one of its own hosts, and that no page of another site sends (ACC-7):
// some pages take work, such as /check. Commands refuse such pages by themselves, with a line of their own.
// A browser names the host of the page that sends a request. Without the check a page whose
// name its owner points at the relay's address could read all that the admin port shows.
func (a adminPort) door(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for name, value := range adminHeaders {
			w.Header().Set(name, value)
		}
		if site := req.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && !isProbe(req) && admin.LooksOnly(req) {
			a.relay.refusals.AdminRefused(req, "", refusals.OtherSite)
			admin.Text(w, http.StatusForbidden, "a page of another site asks: open the admin port's pages from the address bar\n")
			return
		}
		own := &a.relay.now.Load().config.Admin
		if host := hostOf(req.Host); !ownHost(host, own.Listen, own.Hosts) {
			a.relay.refusals.AdminRefused(req, "", refusals.ForeignHost)
			admin.Text(w, http.StatusMisdirectedRequest, "the admin port does not answer by this host name: add it to admin.hosts, or ask by address\n")
			return
		}
		next.ServeHTTP(w, req)
	})
}

// hostOf returns the host of a Host header without its port, in the form in which hosts are
// compared.
func hostOf(header string) string {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return canonicalHost(host)
}

// canonicalHost returns a host in lower case and without the dot of a full name.
func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// ownHost says whether the admin port answers for a host: an address, which no page can
// point elsewhere, the names of the loopback, the host of the listening address, and
// those that are configured.
func ownHost(host, listen string, configured []string) bool {
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return true // HTTP/1.0 names no host; browsers do
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if name, _, err := net.SplitHostPort(listen); err == nil && name != "" && canonicalHost(name) == host {
		return true
	}
	for _, own := range configured {
		own = canonicalHost(own)
		if suffix, ok := strings.CutPrefix(own, "*"); ok && strings.HasSuffix(host, suffix) && len(host) > len(suffix) || own == host {
			return true
		}
	}
	return false
}
