package config

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// Access says who gets what.
type Access struct {
	Otherwise Effect       `yaml:"otherwise"` // for names that no rule matches; secrets are denied then (ACC-4)
	Rules     []AccessRule `yaml:"rules"`     // the first matching rule decides (ACC-2)
	Verify    []VerifyRule `yaml:"verify"`    // all must be true for a client to be served (ACC-5)
	Shadow    Shadow       `yaml:"enforce"`   // false: otherwise and the rules decide about secrets only, and what they would deny is counted

	// Tests are the expected results of the rules. Only [Config.TestRules] runs them.
	Tests []AccessTest `yaml:"tests"`
}

// ListenerAccess says who gets what through one listener, in place of [Access]. Tests of its rules stand
// among those of Access, and name the listener.
type ListenerAccess struct {
	Otherwise Effect       `yaml:"otherwise"`
	Rules     []AccessRule `yaml:"rules"`
	Verify    []VerifyRule `yaml:"verify"`
	Shadow    Shadow       `yaml:"enforce"`
}

// Shadow says that rules are counted and audited, and not enforced. It is written as the opposite: enforce.
type Shadow bool

// UnmarshalText takes true, which is the default, or false.
func (s *Shadow) UnmarshalText(text []byte) error {
	enforce, err := strconv.ParseBool(string(text))
	if err != nil {
		return fmt.Errorf("expected true or false, got %q", text)
	}
	*s = Shadow(!enforce)
	return nil
}

// MarshalText gives true or false.
func (s Shadow) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String gives true or false.
func (s Shadow) String() string { return strconv.FormatBool(!bool(s)) }

// AccessRule says what some clients get of some names, with the fields of [rules.AccessRule].
type AccessRule struct {
	Name   string `yaml:"name"`
	Match  string `yaml:"match"`  // a CEL expression over peer, node, listener, type, name and xdstp
	Effect Effect `yaml:"effect"` // on the names that match

	Secrets bool `yaml:"secrets,omitempty"` // a rule that allows gives secrets only with it (ACC-4)

	Shadow Shadow `yaml:"enforce"` // false: the rule decides nothing
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
	Shadow  Shadow `yaml:"enforce"` // false: the rule refuses nobody
}

// access checks the sections.
func (k *checker) access(c *Config) {
	k.typeList("types.secret", c.Types.Secret)
	k.compiled.access = make(map[string]compiledAccess)
	for _, s := range c.accessSections() {
		k.accessSection(c, s)
	}
	k.accessTests(c)
}

func (k *checker) accessSection(c *Config, s accessSection) {
	allowed, verified := s.allowed(c), s.requirements()
	a, problems := rules.CompileAccess(allowed)
	for _, p := range problems {
		k.errs = append(k.errs, c.inaccessible(s, p))
	}
	for i, r := range s.rules {
		k.enum(s.rulePath(i)+".effect", reflect.ValueOf(r.Effect))
		if r.Secrets && r.Effect == Deny {
			k.fail(s.rulePath(i)+".secrets", "expected it with effect: allow only: a rule that denies is for secrets too")
		}
	}
	v, problems := rules.CompileVerify(verified)
	for _, p := range problems {
		k.errs = append(k.errs, c.unverifiable(s, p))
	}
	k.compiled.access[s.path] = compiledAccess{
		made[rules.AccessConfig, *rules.Access]{&allowed, a}, made[[]rules.Requirement, *rules.Verifier]{&verified, v},
	}
	if s.identifies(&c.Server) {
		return
	}
	message := noIdentity
	if s.listener != "" {
		message = noIdentityThere
	}
	if a != nil {
		for _, i := range a.LooksAtPeer() {
			k.fail(s.rulePath(i)+".match", "%s", message)
		}
	}
	if v != nil {
		for _, i := range v.LooksAtPeer() {
			k.fail(s.verifyPath(i)+".require", "%s", message)
		}
	}
}

const (
	noIdentity      = "the expression looks at peer: expected server.tls.client_ca_file, server.tls.spiffe, server.identity.jwt, or a listener on a unix socket, because otherwise nobody has an identity"
	noIdentityThere = "the expression looks at peer: expected tls.client_ca_file, tls.spiffe or identity.jwt for the listener, or a unix socket, because otherwise its clients have no identity"
)

// inaccessible makes an Error of what is wrong with an access rule.
func (c *Config) inaccessible(s accessSection, p rules.Problem) *Error {
	return c.inRule(s.rulePath(p.Rule), p, func() string { return s.rules[p.Rule].Match })
}

// unverifiable makes an Error of what is wrong with a rule about nodes.
func (c *Config) unverifiable(s accessSection, p rules.Problem) *Error {
	return c.inRule(s.verifyPath(p.Rule), p, func() string { return s.verify[p.Rule].Require })
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
