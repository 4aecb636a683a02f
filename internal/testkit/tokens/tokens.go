// Package tokens issues bearer tokens for tests, as an issuer of JSON Web Tokens does.
package tokens

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer signs tokens with a key of its own.
type Issuer struct {
	tb   testing.TB
	Name string
	ID   string // of the key
	key  *ecdsa.PrivateKey
}

// NewIssuer makes an issuer whose key has an ID.
func NewIssuer(tb testing.TB, name, id string) *Issuer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return &Issuer{tb, name, id, key}
}

// Claims are those of a token, beside iss, and exp an hour ahead, which they may replace.
type Claims map[string]any

// Token issues a token.
func (i *Issuer) Token(claims Claims) string {
	i.tb.Helper()
	all := Claims{"iss": i.Name, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	return Sign(i.tb, jose.ES256, i.key, i.ID, all)
}

// Key is the public key.
func (i *Issuer) Key() jose.JSONWebKey {
	return jose.JSONWebKey{Key: i.key.Public(), KeyID: i.ID, Algorithm: string(jose.ES256), Use: "sig"}
}

// Sign signs claims with any key; a claim that is nil is left out.
func Sign(tb testing.TB, algorithm jose.SignatureAlgorithm, key crypto.PrivateKey, id string, claims Claims) string {
	tb.Helper()
	options := new(jose.SignerOptions).WithType("JWT")
	if id != "" {
		options = options.WithHeader("kid", id)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		tb.Fatal(err)
	}
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	token, err := jwt.Signed(signer).Claims(map[string]any(claims)).Serialize()
	if err != nil {
		tb.Fatal(err)
	}
	return token
}

// KeySet is the JSON Web Key Set of keys.
func KeySet(tb testing.TB, keys ...jose.JSONWebKey) []byte {
	tb.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// File writes the JSON Web Key Set of keys, all of it at once.
func File(tb testing.TB, name string, keys ...jose.JSONWebKey) {
	tb.Helper()
	next := filepath.Join(filepath.Dir(name), "next-"+filepath.Base(name))
	if err := os.WriteFile(next, KeySet(tb, keys...), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(next, name); err != nil {
		tb.Fatal(err)
	}
}
