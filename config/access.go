package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// Access says who gets what.
type Access struct {
	Otherwise Effect       `yaml:"otherwise"` // for names that no rule matches; secrets are denied then (ACC-4)
	Rules     []AccessRule `yaml:"rules"`     // the first matching rule decides (ACC-2)
	Verify    []VerifyRule `yaml:"verify"`    // all must be true for a client to be served (ACC-5)

	// Tests are the expected results of the rules. Only [Config.TestRules] runs them.
	Tests []AccessTest `yaml:"tests"`
}

// AccessRule says what some clients get of some names, with the fields of [rules.AccessRule].
type AccessRule struct {
	Name   string `yaml:"name"`
	Match  string `yaml:"match"`  // a CEL expression over peer, node, listener, type, name and xdstp
	Effect Effect `yaml:"effect"` // on the names that match
}

// Types says how the relay treats resource types, by short name or type URL.
type Types struct {
	Secret []string `yaml:"secret"` // denied unless a rule of access allows them (ACC-4)
}

// VerifyRule ties a client's node to who the client is, with the fields of
// [rules.Requirement].
type VerifyRule struct {
	Name    string `yaml:"name"`
	Require string `yaml:"require"` // a CEL expression over node and peer
}

// Verifier gives the rules of access.verify, compiled. The error is an [errors.Join] of
// [*Error], as that of Validate, which finds the same.
func (c *Config) Verifier() (*rules.Verifier, error) {
	of := c.requirements()
	if v, ok := c.atLoading().verify.of(of); ok {
		return v, nil
	}
	v, problems := rules.CompileVerify(of)
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = c.unverifiable(p)
	}
	return v, errors.Join(errs...)
}

// AccessRules gives access.rules, compiled (ACC-2). The error is an [errors.Join] of [*Error], as
// that of Validate, which finds the same.
func (c *Config) AccessRules() (*rules.Access, error) {
	of := c.accessRules()
	if a, ok := c.atLoading().access.of(of); ok {
		return a, nil
	}
	a, problems := rules.CompileAccess(of)
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = c.inaccessible(p)
	}
	return a, errors.Join(errs...)
}

// accessRules gives what is compiled.
func (c *Config) accessRules() rules.AccessConfig {
	of := rules.AccessConfig{Allow: c.Access.Otherwise == Allow, Types: make(map[string]bool)}
	for _, r := range c.Access.Rules {
		of.Rules = append(of.Rules, rules.AccessRule{Name: r.Name, Match: r.Match, Allow: r.Effect == Allow})
	}
	for _, url := range typeURLs(c.Types.Secret) {
		of.Types[url] = true
	}
	return of
}

// SecretsDenied reports whether the relay serves no client the types of types.secret, since no
// rule of access allows anything (ACC-4).
func (c *Config) SecretsDenied() bool {
	return len(c.Types.Secret) > 0 && !slices.ContainsFunc(c.Access.Rules, func(r AccessRule) bool { return r.Effect == Allow })
}

// requirements gives what is compiled.
func (c *Config) requirements() []rules.Requirement {
	list := make([]rules.Requirement, len(c.Access.Verify))
	for i, r := range c.Access.Verify {
		list[i] = rules.Requirement(r)
	}
	return list
}

// access checks the section.
func (k *checker) access(c *Config) {
	k.typeList("types.secret", c.Types.Secret)
	allowed, verified := c.accessRules(), c.requirements()
	a, problems := rules.CompileAccess(allowed)
	for _, p := range problems {
		k.errs = append(k.errs, c.inaccessible(p))
	}
	for i, r := range c.Access.Rules {
		k.enum(accessPath(i)+".effect", reflect.ValueOf(r.Effect))
	}
	v, problems := rules.CompileVerify(verified)
	for _, p := range problems {
		k.errs = append(k.errs, c.unverifiable(p))
	}
	k.compiled.access = made[rules.AccessConfig, *rules.Access]{&allowed, a}
	k.compiled.verify = made[[]rules.Requirement, *rules.Verifier]{&verified, v}
	k.accessTests(c)
	if c.Server.identifies() {
		return
	}
	if a != nil {
		for _, i := range a.LooksAtPeer() {
			k.fail(accessPath(i)+".match", noIdentity)
		}
	}
	if v != nil {
		for _, i := range v.LooksAtPeer() {
			k.fail(verifyPath(i)+".require", noIdentity)
		}
	}
}

const noIdentity = "the expression looks at peer: expected server.tls.client_ca_file, server.tls.spiffe, server.identity.jwt, or a listener on a unix socket, because otherwise nobody has an identity"

func accessPath(i int) string { return fmt.Sprintf("access.rules[%d]", i) }

func verifyPath(i int) string { return fmt.Sprintf("access.verify[%d]", i) }

// inaccessible makes an Error of what is wrong with a rule of access.rules.
func (c *Config) inaccessible(p rules.Problem) *Error {
	return c.inRule(accessPath(p.Rule), p, func() string { return c.Access.Rules[p.Rule].Match })
}

// unverifiable makes an Error of what is wrong with a rule of access.verify.
func (c *Config) unverifiable(p rules.Problem) *Error {
	return c.inRule(verifyPath(p.Rule), p, func() string { return c.Access.Verify[p.Rule].Require })
}

// inRule makes an Error of what is wrong with a rule that has one expression.
func (c *Config) inRule(path string, p rules.Problem, expression func() string) *Error {
	if p.Field != "" {
		path += "." + p.Field
	}
	if p.Line > 0 {
		return c.located(path, expression(), p)
	}
	return c.located(path, "", p)
}

// VerifyNames are the names of the rules of access.verify, in order.
func (c *Config) VerifyNames() []string {
	names := make([]string, len(c.Access.Verify))
	for i, r := range c.Access.Verify {
		names[i] = r.Name
	}
	return names
}
