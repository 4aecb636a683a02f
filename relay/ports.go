package relay

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/internal/tlsfiles"
)

// port is one of the relay's listeners for clients.
type port struct {
	identity.Listener

	protocol config.Protocol
	secure   *secure // nil: plain text

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
	for _, l := range s.AllListeners() {
		p := &port{Listener: identity.Listener{Name: l.Name}, protocol: l.Protocol}
		all = append(all, p)
		if l.TLS == nil {
			continue
		}
		files, err := r.serverTLS(l, s.TLSRefresh)
		if err != nil {
			return all, named(l.Name, err)
		}
		p.secure = newSecure(r, files, l.Identity.Recheck)
		p.Credentials = contained{r.door.Guard(p.secure.watch.Guard(files.Credentials())), r.panics}
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
func (all ports) Judge(client *identity.Client, from string, state *tls.ConnectionState) error {
	if p := all.through(client); p != nil && p.secure != nil && state != nil {
		return p.secure.judge(from, state)
	}
	return nil
}

// Recheck implements downstream.Judge.
func (all ports) Recheck(client *identity.Client) time.Duration {
	if p := all.through(client); p != nil && p.secure != nil {
		return p.secure.watch.Recheck()
	}
	return 0
}

// watch judges clients of gRPC as long as ctx lasts.
func (all ports) watch(ctx context.Context, wg *sync.WaitGroup, panics *contain.Panics) {
	for _, p := range all {
		if p.secure != nil {
			wg.Go(func() { panics.Loop(ctx, contain.Background, func() { p.secure.watch.Run(ctx) }) })
		}
	}
}

// ServeREST has Run serve clients that poll on rest, too (VAR-5), and close it. It is
// to be called before Run.
func (r *Relay) ServeREST(rest net.Listener) { r.ports[0].rest = rest }

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
	failed chan error // has room for one error of each socket, and one of the admin port
}

// serveClients serves on every socket of every port. The caller closes polls.
func (r *Relay) serveClients(wg *sync.WaitGroup) (*serving, error) {
	s := &serving{relay: r, failed: make(chan error, 2*len(r.ports)+1)}
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
			wg.Go(func() { s.fail(p, "REST port", serveREST(web, p.Guard(p.rest))) })
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

// renewedTLS are TLS files for a port, before they are in use.
type renewedTLS struct {
	of    *secure
	files *tlsfiles.Server
}

// renew reads the TLS files of the ports for which others are named, or the times change when they
// are looked at. That there are any cannot change.
func (r *Relay) renew(s config.Server) (all []renewedTLS, err error) {
	running := r.now.Load().config.Server
	before := running.AllListeners()
	for i, l := range s.AllListeners() {
		if l.TLS == nil || *l.TLS == *before[i].TLS && s.TLSRefresh == running.TLSRefresh {
			continue
		}
		files, err := r.serverTLS(l, s.TLSRefresh)
		if err != nil {
			discard(all)
			return nil, named(l.Name, err)
		}
		all = append(all, renewedTLS{r.ports[i].secure, files})
	}
	return all, nil
}

// discard closes files that do not come into use.
func discard(all []renewedTLS) {
	for _, next := range all {
		next.files.Close()
	}
}

// adopt puts renewed files, and identities, in force.
func (all ports) adopt(renewed []renewedTLS, s config.Server) {
	for _, next := range renewed {
		next.of.Adopt(next.files)
	}
	for i, l := range s.AllListeners() {
		if p := all[i]; p.secure != nil {
			p.secure.watch.SetRecheck(l.Identity.Recheck.Std())
		}
	}
}
