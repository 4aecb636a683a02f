package credentials

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

const (
	// maxKeySet bounds a set of keys, in bytes.
	maxKeySet = 1 << 20
	// maxKeys bounds the keys of a set.
	maxKeys = 100
	// maxTried bounds the keys that a token is tried with: each takes the time of a signature.
	maxTried = 4
	// minRSA is the least length of RSA keys, in bits.
	minRSA = 2048
)

// algorithms are those by which a token may be signed. All are asymmetric: with a symmetric one,
// everybody who knows a public key could sign, and with "none" everybody could.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// keySet are the public keys of an issuer that may have signed a token. It is immutable.
type keySet []verifyingKey

type verifyingKey struct {
	jose.JSONWebKey

	print [sha256.Size]byte // of the key itself, whatever its ID is
}

var errNoKeys = errors.New("it has no public key for signatures (RSA of 2048 bits or more, P-256, P-384, P-521 or Ed25519)")

// parseKeys reads a JSON Web Key Set. It leaves out keys that are of no use here: symmetric and
// private ones, those for encryption, and those of a kind that is not known.
func parseKeys(text []byte) (keySet, error) {
	if len(text) > maxKeySet {
		return nil, fmt.Errorf("it has more than %d bytes", maxKeySet)
	}
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("no JSON Web Key Set: %w", err)
	}
	if len(document.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, at most %d are read", len(document.Keys), maxKeys)
	}
	var set keySet
	for _, one := range document.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(one) != nil || !verifies(&key) {
			continue // a set may have keys of kinds to come
		}
		public, err := json.Marshal(jose.JSONWebKey{Key: key.Key})
		if err != nil {
			continue
		}
		set = append(set, verifyingKey{key, sha256.Sum256(public)})
	}
	if len(set) == 0 {
		return nil, errNoKeys
	}
	return set, nil
}

// verifies reports whether a key is a public one for signatures.
func verifies(key *jose.JSONWebKey) bool {
	return (key.Use == "" || key.Use == "sig") && key.IsPublic() && key.Valid() && len(algorithmsOf(key.Key)) > 0
}

// algorithmsOf lists the algorithms that a key is for.
func algorithmsOf(key any) []jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() >= minRSA {
			return []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}
		}
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return []jose.SignatureAlgorithm{jose.ES256}
		case elliptic.P384():
			return []jose.SignatureAlgorithm{jose.ES384}
		case elliptic.P521():
			return []jose.SignatureAlgorithm{jose.ES512}
		}
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}

// may lists the first keys that may have signed by an algorithm, at most maxTried: those with a key ID, or any if the
// token names none.
func (s keySet) may(id, algorithm string) (keys keySet) {
	for _, key := range s {
		if id != "" && key.KeyID != id || key.Algorithm != "" && key.Algorithm != algorithm {
			continue
		}
		for _, a := range algorithmsOf(key.Key) {
			if string(a) == algorithm {
				keys = append(keys, key)
			}
		}
		if len(keys) == maxTried {
			break
		}
	}
	return keys
}

// has reports whether a key is still there.
func (s keySet) has(sum [sha256.Size]byte) bool {
	for _, key := range s {
		if key.print == sum {
			return true
		}
	}
	return false
}
