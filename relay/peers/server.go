package peers

import (
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/snapshot"
)

const (
	// path is all that a peer is asked for: with scopeParameter the image of a scope, by its ID (snapshot.ID), and else the
	// names of the upstreams that the peer has content of, one a line.
	path           = "/image"
	scopeParameter = "scope"
	// fromHeader has the ID of the process that asks: a name of peers.addresses stands for all replicas, itself too.
	fromHeader = "Xdsrelay-Process"
)

// exchangeTime bounds an exchange, on both sides.
const exchangeTime = 30 * time.Second

// Scopes are the scopes of a relay as its peers ask for them. Any goroutine may call the methods.
type Scopes interface {
	// Find gives the store of the scope with an ID, and what its image is of; nil if there is none.
	Find(id string) (*cache.Store, *snapshot.Header)
	// Holds lists the upstreams that the relay has content of.
	Holds() []string
}

// Observer counts. Any goroutine may call its methods.
type Observer interface {
	// Asked is called after a peer was asked for the image of a scope, Taken with the number of
	// resources that were taken of it.
	Asked(r Result)
	Taken(resources int)
	// Gave is called for each relay that asked, with its identity, which is "" if it was refused, and the number of
	// resources that it was given.
	Gave(identity string, r Result, resources int)
}

// Result is how a peer answered.
type Result string

// The results.
const (
	ResultContent Result = "content" // an image; to the relay that asked it was of use
	ResultNothing Result = "nothing" // the peer has nothing, or nothing new
	ResultRefused Result = "refused" // the relay that asked may not
	ResultFailed  Result = "failed"  // no answer, or none that is of use
)

// Results lists all.
func Results() []Result { return []Result{ResultContent, ResultNothing, ResultRefused, ResultFailed} }

// Server answers peers.
type Server struct {
	ID      string // of this process
	Scopes  Scopes
	Secrets bool // images have secrets
	// Identify gives the identity of a relay that may ask, by the certificates that it showed. The error is for the log.
	Identify func(shown []*x509.Certificate) (string, error)
	Observer Observer
	Log      *slog.Logger
	// Audit is told of each relay that was refused, with the reason, and of each that was given the image of a scope.
	Audit func(address, identity, scope string, refused error)
}

// Identity gives the one of identities by which a certificate is known: its only URI, or one of its DNS names if it has
// no URI. It is "" without one. Of several URIs nobody can say which is meant.
func Identity(identities []string, c *x509.Certificate) string {
	names := c.DNSNames
	if len(c.URIs) > 0 {
		names = nil
	}
	if len(c.URIs) == 1 {
		names = []string{c.URIs[0].String()}
	}
	if i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(identities, name) }); i >= 0 {
		return names[i]
	}
	return ""
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.URL.Path != path:
		http.Error(w, "this port of the relay is for other relays, which ask for "+path, http.StatusNotFound)
		return
	case req.Method != http.MethodGet:
		http.Error(w, "expected GET", http.StatusMethodNotAllowed)
		return
	}
	var shown []*x509.Certificate
	if req.TLS != nil {
		shown = req.TLS.PeerCertificates
	}
	who, err := s.Identify(shown)
	switch {
	case err != nil:
		s.Observer.Gave("", ResultRefused, 0)
		s.Audit(req.RemoteAddr, "", "", err)
		s.Log.Warn("a relay may not ask", "peer", req.RemoteAddr, "error", err)
		http.Error(w, "this relay may not ask: see peers.identities of the relay that it asks", http.StatusForbidden)
	case req.Header.Get(fromHeader) == s.ID: // nobody else knows it
		http.Error(w, "a relay is not its own peer", http.StatusConflict)
	default:
		s.answer(w, req, who)
	}
}

// answer answers a relay that may ask.
func (s *Server) answer(w http.ResponseWriter, req *http.Request, who string) {
	id := req.URL.Query().Get(scopeParameter)
	if id == "" {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, strings.Join(s.Scopes.Holds(), "\n")) // a relay that is gone hears nothing
		return
	}
	log := s.Log.With("peer", req.RemoteAddr, "identity", who)
	store, h := s.Scopes.Find(id)
	if store == nil {
		s.Observer.Gave(who, ResultNothing, 0)
		log.Debug("a peer asked for a scope that this relay does not have")
		http.Error(w, "this relay has no such scope", http.StatusNotFound)
		return
	}
	log = log.With("upstream", h.Upstream, "scope", h.Scope)
	image := store.Snapshots().Image(func(string) bool { return false })
	tag := fmt.Sprintf("%q", s.ID+"-"+image.Mark.String())
	if req.Header.Get("If-None-Match") == tag {
		s.Observer.Gave(who, ResultNothing, 0)
		log.Debug("a peer has the image already that it asked for")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if !image.AsOf.IsZero() && image.AsOf.Before(h.AsOf) {
		h.AsOf = image.AsOf
	}
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", "application/octet-stream")
	s.Audit(req.RemoteAddr, who, h.Scope, nil)
	counts, err := snapshot.Lend(until{w, h.Written.Add(exchangeTime)}, h, image, s.Secrets)
	if err != nil {
		s.Observer.Gave(who, ResultFailed, counts.Resources)
		log.Warn("a peer did not read to its end what it asked for", "resources", counts.Resources, "error", err)
		return // the format says to the peer that this is not the end
	}
	s.Observer.Gave(who, ResultContent, counts.Resources)
	log.Info("gave a peer what it asked for", "resources", counts.Resources, "bytes", counts.Bytes)
}

// until is an answer that ends at a time.
type until struct {
	io.Writer

	at time.Time
}

var errTooLong = fmt.Errorf("an exchange between relays takes at most %s", exchangeTime)

// Write implements io.Writer.
func (u until) Write(b []byte) (int, error) {
	if time.Now().After(u.at) {
		return 0, errTooLong
	}
	return u.Writer.Write(b)
}
