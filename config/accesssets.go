package config

import (
	"errors"
	"fmt"
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// AccessSet decides about the clients of a listener.
type AccessSet struct {
	Rules    *rules.Access   // what they may get (ACC-2)
	Verifier *rules.Verifier // which nodes they may present (ACC-5)
	// Listener is the listener whose own set it is; "": it is for those that have none.
	Listener string
}

// AccessSets are the sets of a configuration.
type AccessSets struct {
	common AccessSet
	own    map[string]*AccessSet // by listener
}

// Of gives the set for the clients of a listener.
func (a *AccessSets) Of(listener string) *AccessSet {
	if own := a.own[listener]; own != nil {
		return own
	}
	return &a.common
}

// AccessSets gives the rules of access, and of the listeners that have their own, compiled. The error is an
// [errors.Join] of [*Error], as that of Validate, which finds the same.
func (c *Config) AccessSets() (*AccessSets, error) {
	all := &AccessSets{own: make(map[string]*AccessSet)}
	var errs []error
	for _, s := range c.accessSections() {
		set, bad := c.accessSet(s)
		errs = append(errs, bad...)
		if s.listener == "" {
			all.common = set
		} else {
			all.own[s.listener] = &set
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// accessSet compiles a section, unless that was done when the configuration was loaded.
func (c *Config) accessSet(s accessSection) (AccessSet, []error) {
	set, done := AccessSet{Listener: s.listener}, c.atLoading().access[s.path]
	var errs []error
	allowed, requirements := s.allowed(c), s.requirements()
	var made bool
	if set.Rules, made = done.rules.of(allowed); !made {
		var problems []rules.Problem
		set.Rules, problems = rules.CompileAccess(allowed)
		for _, p := range problems {
			errs = append(errs, c.inaccessible(s, p))
		}
	}
	if set.Verifier, made = done.verify.of(requirements); !made {
		var problems []rules.Problem
		set.Verifier, problems = rules.CompileVerify(requirements)
		for _, p := range problems {
			errs = append(errs, c.unverifiable(s, p))
		}
	}
	return set, errs
}

// accessSection is a set of access rules as it is configured: Config.Access, or that of a listener.
type accessSection struct {
	path      string
	listener  string // whose own it is; "": of all that have none
	otherwise Effect
	rules     []AccessRule
	verify    []VerifyRule
	shadow    bool
}

// accessSections gives Config.Access, and then those of listeners.
func (c *Config) accessSections() []accessSection {
	all := []accessSection{{"access", "", c.Access.Otherwise, c.Access.Rules, c.Access.Verify, bool(c.Access.Shadow)}}
	for i, l := range c.Server.Listeners {
		if a := l.Access; a != nil {
			all = append(all, accessSection{fmt.Sprintf("server.listeners[%d].access", i), l.Name, a.Otherwise, a.Rules, a.Verify, bool(a.Shadow)})
		}
	}
	return all
}

// sectionOf gives what decides about the clients of a listener; "" is the default one.
func (c *Config) sectionOf(listener string) accessSection {
	all := c.accessSections()
	if i := slices.IndexFunc(all, func(s accessSection) bool { return s.listener != "" && s.listener == listener }); i > 0 {
		return all[i]
	}
	return all[0]
}

// allowed gives what is compiled of the rules.
func (s *accessSection) allowed(c *Config) rules.AccessConfig {
	of := rules.AccessConfig{Allow: s.otherwise == Allow, Types: make(map[string]bool), Shadow: s.shadow}
	for _, r := range s.rules {
		of.Rules = append(of.Rules, rules.AccessRule{Name: r.Name, Match: r.Match, Allow: r.Effect == Allow, Secrets: r.Secrets, Shadow: bool(r.Shadow)})
	}
	for _, url := range c.SecretTypeURLs() {
		of.Types[url] = true
	}
	return of
}

// SecretTypeURLs are the types of types.secret.
func (c *Config) SecretTypeURLs() []string { return typeURLs(c.Types.Secret) }

// requirements gives what is compiled of verify.
func (s *accessSection) requirements() []rules.Requirement {
	list := make([]rules.Requirement, len(s.verify))
	for i, r := range s.verify {
		list[i] = rules.Requirement{Name: r.Name, Require: r.Require, Shadow: bool(r.Shadow)}
	}
	return list
}

func (s *accessSection) rulePath(i int) string { return fmt.Sprintf("%s.rules[%d]", s.path, i) }

func (s *accessSection) verifyPath(i int) string { return fmt.Sprintf("%s.verify[%d]", s.path, i) }

// decides reports whether the section is for the clients of a listener.
func (s *accessSection) decides(l *Listener) bool {
	return l.Access == nil && s.listener == "" || l.Access != nil && s.listener == l.Name
}

// identifies reports whether some of its clients have an identity.
func (s *accessSection) identifies(server *Server) bool {
	return s.listener == "" && isUnix(server.RESTListen) ||
		slices.ContainsFunc(server.AllListeners(), func(l Listener) bool { return s.decides(&l) && l.identifies() })
}

// SecretsDenied lists the listeners whose clients are served none of the types of types.secret, since no
// rule gives secrets (ACC-4). all: it is so of all listeners.
func (c *Config) SecretsDenied() (listeners []string, all bool) {
	if len(c.Types.Secret) == 0 {
		return nil, false
	}
	all = true
	for _, l := range c.Server.AllListeners() {
		if slices.ContainsFunc(c.sectionOf(l.Name).rules, func(r AccessRule) bool { return r.Effect == Allow && r.Secrets && !bool(r.Shadow) }) {
			all = false
		} else {
			listeners = append(listeners, l.Name)
		}
	}
	return listeners, all
}

// VerifyNames are the names of the rules that tie nodes to peers, in order, each once.
func (c *Config) VerifyNames() []string {
	var names []string
	for _, s := range c.accessSections() {
		for _, r := range s.verify {
			if !slices.Contains(names, r.Name) {
				names = append(names, r.Name)
			}
		}
	}
	return names
}

// ShadowNames are the names of the rules that are not enforced, and [rules.Otherwise] if it is not, in order, each once.
func (c *Config) ShadowNames() (names []string) {
	add := func(name string, shadow bool) {
		if shadow && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range c.accessSections() {
		for _, r := range s.rules {
			add(r.Name, s.shadow || bool(r.Shadow))
		}
		add(rules.Otherwise, s.shadow)
		for _, r := range s.verify {
			add(r.Name, bool(r.Shadow))
		}
	}
	return names
}

// CountAccess counts the access rules, and those about nodes, of all sections.
func (c *Config) CountAccess() (allowed, verified int) {
	for _, s := range c.accessSections() {
		allowed, verified = allowed+len(s.rules), verified+len(s.verify)
	}
	return allowed, verified
}
