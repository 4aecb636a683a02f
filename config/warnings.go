package config

import (
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Warnings gives what a valid configuration allows and few operators want, each with its place like
// the errors of Validate. A configuration with warnings works.
func (c *Config) Warnings() []*Error {
	w := &warnings{from: c.from}
	w.openAdmin(&c.Admin)
	w.openServer(&c.Server)
	w.openRules(c)
	w.uselessRules(c)
	w.literals(c)
	w.openSecrets(c)
	w.withoutSecrets(c)
	w.misspelt(c)
	w.severalCAs(c)
	w.passedTypes(c)
	for i := range c.Upstreams {
		w.openTokens(fmt.Sprintf("upstreams[%d]", i), &c.Upstreams[i])
		if t := c.Upstreams[i].TLS; t != nil {
			w.anyServer(fmt.Sprintf("upstreams[%d].tls.spiffe", i), t.SPIFFE)
		}
	}
	return append(w.all, c.unread...)
}

// warnings gathers what is risky.
type warnings struct {
	from origins
	all  []*Error
}

func (w *warnings) add(path, format string, args ...any) {
	w.all = append(w.all, w.from.errorAt(path, format, args...))
}

// openAdmin warns of an admin port that others may reach and that does not ask who they are.
func (w *warnings) openAdmin(a *Admin) {
	certificates := a.TLS != nil && a.TLS.verifies()
	switch {
	case isLocal(a.Listen):
	case a.TokensFile == "" && !certificates:
		w.add("admin.listen", "everybody who reaches %s sees what all clients have, and can hold, release and roll back what they get: "+
			"expected a loopback address or a unix socket, or admin.tls with client_ca_file or spiffe, or admin.tokens_file", a.Listen)
	case a.TLS == nil:
		w.add("admin.tokens_file", "everybody on the way to %s can read the tokens: expected admin.tls", a.Listen)
	}
}

// openServer warns of listeners that others may reach and that trust every client.
func (w *warnings) openServer(s *Server) {
	open := func(path, address string, l *Listener) {
		switch {
		case address == "" || isLocal(address):
		case l.TLS == nil:
			w.add(path, "everybody on the way to %s can read what clients get, and change it: expected tls, with client_ca_file or spiffe", address)
		case !l.identifies():
			w.add(path, "everybody who reaches %s can present any node and ask for any name: expected tls.client_ca_file, tls.spiffe or identity.jwt, "+
				"so that clients can show who they are", address)
		}
	}
	for i, l := range s.AllListeners() {
		open(listenerPath(i), l.Listen, &l)
		if i == 0 {
			l.Listen = s.RESTListen
			open("server.rest_listen", s.RESTListen, &l)
		}
	}
	if s.DebugServices && !isLocal(s.Listen) {
		w.add("server.debug_services", "channelz shows each client the addresses of all others: expected false")
	}
}

// listenerPath is where the address of a listener is written, by its index in AllListeners.
func listenerPath(i int) string {
	if i == 0 {
		return "server.listen"
	}
	return fmt.Sprintf("server.listeners[%d].listen", i-1)
}

// openSecrets warns of rules that give secrets to clients of whom nothing is known (ACC-4).
func (w *warnings) openSecrets(c *Config) {
	access, err := c.AccessSets()
	if err != nil {
		return
	}
	for _, name := range c.Server.anonymous() {
		set, section := access.Of(name), c.sectionOf(name)
		if len(set.Verifier.LooksAtPeer()) > 0 {
			continue // it refuses those of whom nothing is known
		}
		var told []int
		for _, url := range c.SecretTypeURLs() {
			i := set.Rules.AllowsUnknown(url, name)
			if i < 0 || slices.Contains(told, i) {
				continue
			}
			told = append(told, i)
			w.add(section.rulePath(i)+".match", "the rule may give secrets to clients of the listener %q, of whom nothing is known: "+
				"expected client_ca_file, spiffe or jwt for the listener, a unix socket, or a match that looks at peer or listener", name)
		}
	}
}

// withoutSecrets warns of rules that may match secrets and do not give them (ACC-4).
func (w *warnings) withoutSecrets(c *Config) {
	access, err := c.AccessSets()
	if err != nil {
		return
	}
	for _, section := range c.accessSections() {
		var told []int
		for _, url := range c.SecretTypeURLs() {
			for _, i := range access.Of(section.listener).Rules.WithoutSecrets(url) {
				if !slices.Contains(told, i) {
					told = append(told, i)
					w.add(section.rulePath(i)+".match", "the rule %q gives no secrets, though it may match them: "+
						"expected secrets: true, or a match without them, like type != sds", section.rules[i].Name)
				}
			}
		}
	}
}

// misspelt warns of names in access rules that no name equals (NAME-3).
func (w *warnings) misspelt(c *Config) {
	access, err := c.AccessSets()
	if err != nil {
		return
	}
	for _, section := range c.accessSections() {
		for _, m := range access.Of(section.listener).Rules.Misspelt() {
			expected := "an xdstp name"
			if m.Canonical != "" {
				expected = fmt.Sprintf("%q", m.Canonical)
			}
			w.add(section.rulePath(m.Rule)+".match", "no name equals %q, because rules see names in their canonical form: expected %s", m.Text, expected)
		}
	}
}

// severalCAs warns of rules that believe what certificates say, and do not ask which listener's CA says so: each CA can give
// any name (ACC-1).
func (w *warnings) severalCAs(c *Config) {
	access, err := c.AccessSets()
	if err != nil {
		return
	}
	for _, section := range c.accessSections() {
		var cas, names []string
		for _, l := range c.Server.AllListeners() {
			if l.TLS != nil && l.TLS.ClientCAFile != "" && section.decides(&l) && !slices.Contains(cas, l.TLS.ClientCAFile) {
				cas, names = append(cas, l.TLS.ClientCAFile), append(names, l.Name)
			}
		}
		if len(cas) < 2 {
			continue
		}
		const message = "the expression believes certificates of the CAs of the listeners %s alike: each of these CAs can give any name. Expected a look at listener too, or access rules for each listener"
		set := access.Of(section.listener)
		for _, i := range set.Rules.PeerOfAnyListener() {
			w.add(section.rulePath(i)+".match", message, strings.Join(names, ", "))
		}
		for _, i := range set.Verifier.PeerOfAnyListener() {
			w.add(section.verifyPath(i)+".require", message, strings.Join(names, ", "))
		}
	}
}

// anonymous lists the listeners whose clients have no identity.
func (s *Server) anonymous() []string {
	var names []string
	for i, l := range s.AllListeners() {
		open := l.Listen != "" && !l.identifies()
		if i == 0 && s.RESTListen != "" {
			l.Listen = s.RESTListen
			open = open || !l.identifies()
		}
		if open {
			names = append(names, l.Name)
		}
	}
	return names
}

// openRules warns of scopes for which a client may speak that was not verified.
func (w *warnings) openRules(c *Config) {
	unverified := slices.IndexFunc(c.accessSections(), func(s accessSection) bool {
		return !slices.ContainsFunc(s.verify, func(r VerifyRule) bool { return !bool(r.Shadow) })
	})
	if unverified < 0 {
		return
	}
	for i, r := range c.Aggregation.Rules {
		if r.Node.First {
			w.add(fmt.Sprintf("aggregation.rules[%d].node", i), "the node of a scope's first client decides what all of its clients get, "+
				"and nothing says that it is the client's own: expected rules in %s.verify, or another node", c.accessSections()[unverified].path)
		}
	}
}

// uselessRules warns of rules that cannot have clients share.
func (w *warnings) uselessRules(c *Config) {
	identified := slices.ContainsFunc(c.Server.AllListeners(), func(l Listener) bool { return l.identifies() })
	set, err := c.Rules()
	if err != nil {
		return
	}
	for i, r := range c.Aggregation.Rules {
		path := fmt.Sprintf("aggregation.rules[%d]", i)
		for j, part := range r.Scope {
			if strings.TrimSpace(part) == "node.id" && strings.TrimSpace(r.Match) == "true" {
				w.add(fmt.Sprintf("%s.scope[%d]", path, j), "each client has a scope, an upstream stream and a cache of its own: expected fields that clients have in common")
			}
		}
		if !identified && set.LooksAtPeer(i) {
			w.add(path, "%s", noIdentity)
		}
	}
}

// unexpanded matches what other programs would replace by a variable of the environment.
var unexpanded = regexp.MustCompile(`\$\{\w+\}|\$\(\w+\)`)

// literals warns of values that look like variables and are taken as they are.
func (w *warnings) literals(c *Config) {
	for _, l := range leaves(reflect.ValueOf(c), reflect.TypeFor[*Config](), "") {
		if !l.value.IsValid() || l.value.Kind() != reflect.String {
			continue
		}
		if v := unexpanded.FindString(l.value.String()); v != "" {
			w.add(l.path, "the relay replaces no variables, and takes %s as it is: set %s instead", v, EnvName(l.path))
		}
	}
}

// openTokens warns of tokens that leave the machine in plaintext.
func (w *warnings) openTokens(path string, u *Upstream) {
	if u.TLS != nil || u.Path != "" || u.local() {
		return
	}
	const message = "everybody on the way to the servers can read the %s: expected tls"
	_, static := u.Metadata[authorization]
	switch key := u.Credentials.tokenKey(); {
	case key != "":
		w.add(path+key, message, "token")
	case static:
		w.add(keyPath(path+".metadata", authorization), message, "token")
	case len(u.Forward) > 0:
		w.add(path+".forward", message, "values of clients")
	}
}

// anyServer warns of servers that may be any workload of a trust domain.
func (w *warnings) anyServer(path string, s *ClientSPIFFE) {
	if s != nil && len(s.ServerIDs) == 0 {
		w.add(path, "every workload of the trust domain can pose as the server: expected server_ids")
	}
}

// local reports whether all servers of the upstream are on the relay's machine.
func (u *Upstream) local() bool {
	for _, group := range u.Endpoints {
		for _, endpoint := range group {
			if !isLocal(endpoint) {
				return false
			}
		}
	}
	return true
}

// isLocal reports whether only processes of this machine can reach an address: one of the loopback
// interface, or a unix socket.
func isLocal(address string) bool {
	if isUnix(address) {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	return isLoopback(strings.ToLower(strings.TrimSuffix(host, ".")))
}
