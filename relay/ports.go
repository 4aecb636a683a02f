package relay

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
)

// port is one of the relay's listeners for clients.
type port struct {
	identity.Listener

	protocol config.Protocol
	secure   *secure  // nil: plain text
	tokens   *bearers // of all ports

	// Sockets, before Run; nil: nobody comes that way. The default listener may have both.
	grpc, rest net.Listener
}

// ports are the relay's listeners for clients; that named "default" is the first.
type ports []*port

var _ downstream.Judge = ports(nil)

// openPorts makes the ports of a configuration, without their sockets. If there is an error,
// those that were made are to be closed.
func (r *Relay) openPorts(s config.Server) (ports, error) {
	var all ports
	shared := &bearers{relay: r, every: tokenCheck}
	for _, l := range s.AllListeners() {
		p := &port{Listener: identity.Listener{Name: l.Name}, protocol: l.Protocol, tokens: shared}
		p.Connections = r.connections
		p.Proxied, p.Failed = l.ProxyProtocol, r.refusals.Unproxied
		all = append(all, p)
		v, err := shared.verifier(l, s.TLSRefresh)
		if err != nil {
			return all, named(l.Name, err)
		}
		p.SetTokens(v)
		if l.TLS == nil {
			continue
		}
		files, err := r.serverTLS(l, s.TLSRefresh)
		if err != nil {
			return all, named(l.Name, err)
		}
		p.secure = newSecure(r, files, l.Identity.Recheck)
		p.Handshake = func(ctx context.Context) identity.Handshake { return r.admission.Handshake(ctx) }
		p.Credentials = contained{r.refusals.Guard(p.secure.watch.Guard(files.Credentials())), r.panics}
	}
	return all, nil
}

// named says of which listener an error is, unless the relay has only one as a rule.
func named(listener string, err error) error {
	if listener == config.DefaultListenerName {
		return err
	}
	return fmt.Errorf("listener %q: %w", listener, err)
}

// close gives back what ports took.
func (all ports) close() {
	for _, p := range all {
		p.Tokens().Close()
		if p.secure != nil {
			p.secure.Close()
		}
	}
}

// of gives the port of a name; nil if there is none.
func (all ports) of(name string) *port {
	for _, p := range all {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// through gives the port through which a client came; nil if that is not known.
func (all ports) through(client *identity.Client) *port {
	if client == nil {
		return nil
	}
	return all.of(client.Listener.Name)
}

// Judge implements downstream.Judge.
func (all ports) Judge(by identity.Caller, from string, state *tls.ConnectionState) error {
	p := all.through(by.Client)
	if p == nil {
		return nil
	}
	if p.secure != nil && state != nil {
		if err := p.secure.judge(from, state); err != nil {
			return err
		}
	}
	return p.tokens.judge(by, from)
}

// Recheck implements downstream.Judge.
func (all ports) Recheck(by identity.Caller) time.Duration {
	p := all.through(by.Client)
	switch {
	case p != nil && by.Token != nil:
		return p.tokens.every
	case p != nil && p.secure != nil:
		return p.secure.watch.Recheck()
	}
	return 0
}

// ServeREST has Run serve clients that poll on rest, too (VAR-5), and close it. It is
// to be called before Run.
func (r *Relay) ServeREST(rest net.Listener) { r.ports[0].rest = rest }

// ServeProbes has Run answer probes, and nothing else, on lis, too, and close it. It is to be called before Run.
func (r *Relay) ServeProbes(lis net.Listener) { r.probes = lis }

// ServeListener has Run serve clients on the socket of a listener of server.listeners, and close
// the socket. It is to be called before Run, for each of them.
func (r *Relay) ServeListener(name string, lis net.Listener) error {
	p := r.ports.of(name)
	switch {
	case p == nil || p == r.ports[0]:
		return fmt.Errorf("server.listeners has no %q", name)
	case p.protocol == config.ProtocolREST:
		p.rest = lis
	default:
		p.grpc = lis
	}
	return nil
}

// serving are the goroutines that serve clients.
type serving struct {
	relay  *Relay
	polls  []*http.Server
	failed chan error // has room for one error of each socket, those of operators, probes and peers too
}

// serveClients serves on every socket of every port. The caller closes polls.
func (r *Relay) serveClients(wg *sync.WaitGroup) (*serving, error) {
	s := &serving{relay: r, failed: make(chan error, 2*len(r.ports)+3)}
	for _, p := range r.ports {
		if p.grpc == nil && p.rest == nil {
			return nil, fmt.Errorf("listener %q has no socket", p.Name)
		}
	}
	for _, p := range r.ports {
		if p.grpc != nil {
			wg.Go(func() { s.fail(p, "xDS port", r.server.Serve(p.Guard(p.grpc))) })
		}
		if p.rest != nil {
			web := r.restServer(p)
			s.polls = append(s.polls, web)
			wg.Go(func() { s.fail(p, "REST port", serveREST(web, p)) })
		}
	}
	return s, nil
}

// fail notes that a socket is not served any more; err is nil if that is as it should be.
func (s *serving) fail(p *port, what string, err error) {
	if err != nil {
		s.failed <- named(p.Name, fmt.Errorf("%s: %w", what, err))
	}
}

// close ends all polls.
func (s *serving) close() {
	for _, web := range s.polls {
		_ = web.Close() // the error of a listener is of no use any more
	}
}

// addresses lists where clients are served, for the log.
func (all ports) addresses() []any {
	list := []any{"xds", all[0].grpc.Addr().String()}
	if rest := all[0].rest; rest != nil {
		list = append(list, "rest", rest.Addr().String())
	}
	for _, p := range all[1:] {
		for _, lis := range []net.Listener{p.grpc, p.rest} {
			if lis != nil {
				list = append(list, "listener_"+p.Name, lis.Addr().String())
			}
		}
	}
	return list
}

// renewed is what changes of ports, before it is in use: TLS files, and the issuers of tokens.
type renewed struct {
	files  map[*secure]*credentials.TLSServer
	tokens map[*port]*credentials.Verifier
}

// renew begins to use the files, or the Workload APIs, of the ports for which others are named, or
// the times change when files are looked at. That there is TLS cannot change.
func (r *Relay) renew(s config.Server) (_ *renewed, err error) {
	running := r.now.Load().config.Server
	before := running.AllListeners()
	next := &renewed{make(map[*secure]*credentials.TLSServer), make(map[*port]*credentials.Verifier)}
	defer func() {
		if err != nil {
			next.discard()
		}
	}()
	for i, l := range s.AllListeners() {
		p, was, again := r.ports[i], before[i], s.TLSRefresh != running.TLSRefresh
		if l.TLS != nil && (again || !reflect.DeepEqual(l.TLS, was.TLS)) {
			if next.files[p.secure], err = r.serverTLS(l, s.TLSRefresh); err != nil {
				delete(next.files, p.secure)
				return nil, named(l.Name, err)
			}
		}
		if again || !reflect.DeepEqual(l.Identity.JWT, was.Identity.JWT) {
			if next.tokens[p], err = p.tokens.verifier(l, s.TLSRefresh); err != nil {
				return nil, named(l.Name, err)
			}
		}
	}
	return next, nil
}

// discard closes what does not come into use.
func (n *renewed) discard() {
	for _, files := range n.files {
		files.Close()
	}
	for _, v := range n.tokens {
		v.Close()
	}
}

// adopt puts what was renewed in force.
func (all ports) adopt(next *renewed, s config.Server) {
	for of, files := range next.files {
		of.Adopt(files)
	}
	for p, v := range next.tokens {
		p.SetTokens(v).Close()
	}
	for i, l := range s.AllListeners() {
		if p := all[i]; p.secure != nil {
			p.secure.watch.SetRecheck(l.Identity.Recheck.Std())
		}
	}
}
