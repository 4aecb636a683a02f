package credentials

import (
	"context"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
)

const (
	// maxToken bounds a token, in bytes.
	maxToken = 16 << 10
	// leeway is how far apart the clocks of issuer and relay may be.
	leeway = 10 * time.Second
)

// TokenIssuer says whose tokens count.
type TokenIssuer struct {
	Issuer    string   // exactly as in the tokens
	Audiences []string // a token needs one of them
	File      string   // with its JSON Web Key Set
	URL       string   // where that is, if there is no file
	CAFile    string   // CAs of the URL's server; "": the system's

	MaxAge time.Duration // after which keys count no more that could not be read or fetched again; 0: never
}

// VerifierConfig makes a Verifier.
type VerifierConfig struct {
	Trusts  []TokenIssuer
	Refresh time.Duration // between two looks at a file
	Panics  *logs.Panics
	// Report is called when keys cannot be read or fetched, once for each reason, and with nil when
	// they are read again.
	Report func(issuer string, err error)
}

// Verifier verifies tokens. Its methods may be called from any goroutine.
type Verifier struct {
	issuers map[string]*issuer // immutable
}

// issuer is one whose tokens count.
type issuer struct {
	trust TokenIssuer
	keys  *keys
}

// NewVerifier makes a verifier. The error is that of a file of keys. Keys that are at a URL are fetched in
// the background: until they are there, tokens of their issuer are refused. Close must be called.
func NewVerifier(c VerifierConfig) (*Verifier, error) {
	v := &Verifier{issuers: make(map[string]*issuer)}
	for _, t := range c.Trusts {
		k, err := openKeys(t, &c)
		if err != nil {
			v.Close()
			return nil, err
		}
		v.issuers[t.Issuer] = &issuer{t, k}
	}
	return v, nil
}

// Close ends the refreshing of keys, and waits for it.
func (v *Verifier) Close() {
	if v == nil {
		return
	}
	for _, i := range v.issuers {
		i.keys.close()
	}
}

// KeyAges gives for each issuer how long ago its keys were read or fetched. A nil Verifier has none.
func (v *Verifier) KeyAges() map[string]time.Duration {
	if v == nil {
		return nil
	}
	ages := make(map[string]time.Duration, len(v.issuers))
	for name, i := range v.issuers {
		ages[name] = i.keys.age()
	}
	return ages
}

// Turn waits until a signature may be verified, which takes a processor. The caller calls done after that.
type Turn func(ctx context.Context) (done func(), err error)

// Verify verifies a token, in its turn; nil: at once. The error is an *[TokenError], or that of turn. It may wait for keys of a
// new ID, as long as ctx lasts and for fetchTime at most, and has no turn then.
func (v *Verifier) Verify(ctx context.Context, raw string, turn Turn) (*Token, error) {
	if len(raw) > maxToken {
		return nil, &TokenError{ReasonMalformed}
	}
	parsed, err := jwt.ParseSigned(raw, algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, &TokenError{ReasonMalformed}
	}
	// The issuer is only a claim until one of its own keys has verified it.
	var claimed jwt.Claims
	if parsed.UnsafeClaimsWithoutVerification(&claimed) != nil {
		return nil, &TokenError{ReasonMalformed}
	}
	i, ok := v.issuers[claimed.Issuer]
	if !ok {
		return nil, &TokenError{ReasonIssuer}
	}
	var claims jwt.Claims
	all := make(map[string]any)
	key, err := i.signer(ctx, parsed.Headers[0], turn, func(key any) bool { return parsed.Claims(key, &claims, &all) == nil })
	if err != nil {
		return nil, err
	}
	if err := i.trust.judge(&claims, time.Now()); err != nil {
		return nil, err
	}
	says, err := keyer.TokenOf(all)
	if err != nil {
		return nil, &TokenError{ReasonMalformed}
	}
	return &Token{Token: says, expires: claims.Expiry.Time(), print: key.print}, nil
}

// signer finds the key that verifies a token. If there is none with the token's key ID, the issuer
// may have a new one.
func (i *issuer) signer(ctx context.Context, header jose.Header, turn Turn, verify func(key any) bool) (*verifyingKey, error) {
	set := i.keys.now()
	may := set.may(header.KeyID, header.Algorithm)
	if len(may) == 0 {
		set = i.keys.fresh(ctx)
		may = set.may(header.KeyID, header.Algorithm)
	}
	if len(may) > 0 && turn != nil {
		done, err := turn(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	for n := range may {
		if verify(may[n].Key) {
			return &may[n], nil
		}
	}
	if set == nil {
		return nil, &TokenError{ReasonNoKeys}
	}
	return nil, &TokenError{ReasonSignature}
}

// judge judges the claims of a token whose signature is good.
func (t *TokenIssuer) judge(claims *jwt.Claims, now time.Time) error {
	if claims.Expiry == nil {
		return &TokenError{ReasonMalformed}
	}
	err := claims.ValidateWithLeeway(jwt.Expected{Issuer: t.Issuer, AnyAudience: t.Audiences, Time: now}, leeway)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrExpired):
		return &TokenError{ReasonExpired}
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return &TokenError{ReasonEarly}
	case errors.Is(err, jwt.ErrInvalidAudience):
		return &TokenError{ReasonAudience}
	}
	return &TokenError{ReasonIssuer}
}

// Check judges a token again that was verified before, maybe by another verifier. The error is an
// *[TokenError]. A nil Verifier trusts nobody.
func (v *Verifier) Check(t *Token, now time.Time) error {
	if now.After(t.expires.Add(leeway)) {
		return &TokenError{ReasonExpired}
	}
	if v == nil {
		return &TokenError{ReasonWithdrawn}
	}
	i, ok := v.issuers[t.Issuer]
	if !ok || !hasAny(i.trust.Audiences, t.Audience) {
		return &TokenError{ReasonWithdrawn}
	}
	// A verifier that has just begun may have no keys yet.
	if set := i.keys.now(); set != nil && !set.has(t.print) {
		return &TokenError{ReasonWithdrawn}
	}
	return nil
}
