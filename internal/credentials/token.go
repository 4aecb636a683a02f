package credentials

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// TokenReason is why a token is refused, or does not count any more. It is a metric's label.
type TokenReason string

// The reasons.
const (
	ReasonMalformed TokenReason = "malformed" // it is no signed JSON Web Token, or has no expiry
	ReasonIssuer    TokenReason = "issuer"    // the issuer is not configured
	ReasonAudience  TokenReason = "audience"  // it is for somebody else
	ReasonSignature TokenReason = "signature" // no key of the issuer has signed it
	ReasonExpired   TokenReason = "expired"   //
	ReasonEarly     TokenReason = "not_yet"   // it is not valid yet
	ReasonNoKeys    TokenReason = "no_keys"   // the relay has none of the issuer
	ReasonWithdrawn TokenReason = "untrusted" // the issuer has taken the key back, or the configuration the issuer
	ReasonSeveral   TokenReason = "several"   // the client sends more than one
)

// TokenRefusals lists the reasons why a token is refused when its client comes.
func TokenRefusals() []TokenReason {
	return []TokenReason{ReasonMalformed, ReasonIssuer, ReasonAudience, ReasonSignature, ReasonExpired, ReasonEarly, ReasonNoKeys, ReasonSeveral}
}

// TokenError says why a token does not count.
type TokenError struct{ Reason TokenReason }

func (e *TokenError) Error() string { return texts[e.Reason] }

var texts = map[TokenReason]string{
	ReasonMalformed: "the bearer token is not a signed JSON Web Token with an expiry",
	ReasonIssuer:    "the relay does not trust the issuer of the bearer token",
	ReasonAudience:  "the bearer token is for another audience",
	ReasonSignature: "no key of its issuer has signed the bearer token",
	ReasonExpired:   "the bearer token has expired: come back with a new one",
	ReasonEarly:     "the bearer token is not valid yet",
	ReasonNoKeys:    "the relay has no keys of the bearer token's issuer yet",
	ReasonWithdrawn: "the relay does not trust the bearer token any more: come back with another one",
	ReasonSeveral:   "there is more than one authorization: expected at most one",
}

// Token is a verified token. It is immutable.
type Token struct {
	keyer.Token

	expires time.Time
	print   [sha256.Size]byte // of the key that signed it
}

// scheme is that of bearer tokens (RFC 6750). Its case says nothing (RFC 9110).
const scheme = "bearer"

// BearerToken gives the bearer token among the values of the authorization header; "" if there is none. Two
// values are an error: another program may have read the other one.
func BearerToken(authorization []string) (token string, err error) {
	switch len(authorization) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", &TokenError{ReasonSeveral}
	}
	kind, token, _ := strings.Cut(strings.TrimSpace(authorization[0]), " ")
	if !strings.EqualFold(kind, scheme) {
		return "", nil
	}
	if token = strings.TrimLeft(token, " "); token == "" || strings.ContainsAny(token, " ,\t") {
		return "", &TokenError{ReasonMalformed}
	}
	return token, nil
}

// UnverifiedToken gives the claims of a token without a look at its signature: rules see them of the client if the
// relay trusts its issuer. White space around it does not matter.
func UnverifiedToken(text []byte) (keyer.Token, error) {
	parsed, err := jwt.ParseSigned(string(bytes.TrimSpace(text)), algorithms)
	if err != nil {
		return keyer.Token{}, fmt.Errorf("expected a signed JSON Web Token: %w", err)
	}
	claims := make(map[string]any)
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		return keyer.Token{}, fmt.Errorf("expected a JSON object as the token's payload: %w", err)
	}
	return keyer.TokenOf(claims)
}

// hasAny reports whether lists share a value.
func hasAny(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
