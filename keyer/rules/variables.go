package rules

import (
	"errors"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/xdsrelay/xdsrelay/keyer"
)

var errNoNode = errors.New("the client sent no node")

// variables are what the expressions see of a client, a type and, if it is not nil, a
// name.
type variables struct {
	client  *Subject
	typeURL string
	name    *string

	typeVal, nameVal, upstreamVal, xdstpVal ref.Val

	open cel.Activation // these where the name is not known; nil: nothing asked for it
}

func (c *Subject) variables(typeURL string, name *string) *variables {
	v := &variables{client: c, typeURL: typeURL, name: name, typeVal: types.String(typeURL), upstreamVal: types.String(c.set.upstream)}
	if name != nil {
		v.nameVal = types.String(*name)
	}
	return v
}

var _ cel.Activation = (*variables)(nil)

// ResolveName implements cel.Activation.
func (v *variables) ResolveName(name string) (any, bool) {
	switch name {
	case varNode:
		return v.client.nodeValue(), true
	case varType:
		return v.typeVal, true
	case varName:
		return v.nameVal, v.name != nil
	case varPeer:
		return v.client.peerValue(), true
	case varUpstream:
		return v.upstreamVal, true
	case varListener:
		return types.String(v.client.peer.Through()), true
	case varXDSTP:
		return v.xdstpValue(), v.name != nil
	}
	return nil, false
}

// xdstpValue is the variable xdstp.
func (v *variables) xdstpValue() ref.Val {
	if v.xdstpVal == nil && v.name != nil {
		v.xdstpVal = valueOf(xdstpOf(*v.name))
	}
	return v.xdstpVal
}

// unknowns are the variables that depend on the name.
var unknowns = []*cel.AttributePatternType{cel.AttributePattern(varName), cel.AttributePattern(varXDSTP)}

// nameless gives the variables for expressions that look at a name, which is not known.
func (v *variables) nameless() (cel.Activation, error) {
	if v.open == nil {
		open, err := cel.PartialVars(v, unknowns...)
		if err != nil {
			return nil, err
		}
		v.open = open
	}
	return v.open, nil
}

// Parent implements cel.Activation.
func (*variables) Parent() cel.Activation { return nil }

// nodeValue is the variable node: an error if the client gave none, so that a rule that looks at it
// fails.
func (c *Subject) nodeValue() ref.Val {
	switch {
	case c.nodeVal != nil:
	case c.node == nil:
		c.nodeVal = types.WrapErr(errNoNode)
	default:
		c.nodeVal = valueOf(c.node)
	}
	return c.nodeVal
}

func (c *Subject) peerValue() ref.Val {
	if c.peerVal == nil {
		c.peerVal = valueOf(newIdentity(c.peer))
	}
	return c.peerVal
}

// newIdentity sorts the names: a renewed certificate may list the same ones in another
// order, and its client is the one that it was.
func newIdentity(p keyer.Peer) *identity {
	id := &identity{
		SPIFFE: p.SPIFFE, Subject: p.Subject,
		DNS: sorted(p.DNS), URIs: sorted(p.URIs), Emails: sorted(p.Emails), IPs: sorted(p.IPs),
		UID: noUser, GID: noUser, Token: new(token),
	}
	if t := p.Token; t != nil {
		id.Token = &token{Iss: t.Issuer, Sub: t.Subject, Aud: sorted(t.Audience), Claims: t.Claims}
	}
	id.Domain, id.Path = p.SPIFFEParts()
	if p.User != nil {
		id.UID, id.GID = int64(p.User.UID), int64(p.User.GID)
	}
	return id
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
