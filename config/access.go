package config

import (
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// Access says who gets what.
type Access struct {
	Verify []VerifyRule `yaml:"verify"` // all must be true for a client to be served (ACC-5)
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
	v, problems := rules.CompileVerify(c.requirements())
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = c.unverifiable(p)
	}
	return v, errors.Join(errs...)
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
	v, problems := rules.CompileVerify(c.requirements())
	for _, p := range problems {
		k.errs = append(k.errs, c.unverifiable(p))
	}
	if v == nil || c.Server.identifies() {
		return
	}
	for _, i := range v.LooksAtPeer() {
		k.fail(verifyPath(i)+".require", "the expression looks at peer: expected server.tls.client_ca_file, server.identity.jwt, or a listener on a unix socket, because otherwise nobody has an identity")
	}
}

func verifyPath(i int) string { return fmt.Sprintf("access.verify[%d]", i) }

// unverifiable makes an Error of what is wrong with a rule of access.verify.
func (c *Config) unverifiable(p rules.Problem) *Error {
	path, expression := verifyPath(p.Rule), ""
	if p.Field != "" {
		path += "." + p.Field
	}
	if p.Line > 0 {
		expression = c.Access.Verify[p.Rule].Require
	}
	return c.located(path, expression, p)
}

// VerifyNames are the names of the rules of access.verify, in order.
func (c *Config) VerifyNames() []string {
	names := make([]string, len(c.Access.Verify))
	for i, r := range c.Access.Verify {
		names[i] = r.Name
	}
	return names
}
