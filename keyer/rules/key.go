package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"cel.dev/cel-go/common/types/ref"
)

// scopeKey writes the scope of a rule: its name and its parts, as in
//
//	sidecars["web","eu-1a"]
//
// followed by the load balancing features of the clients, if any, which set them apart
// (AGG-3): sidecars["web","eu-1a"]["envoy.lb.x"]. Values are written so that no two
// different ones look alike, and none can look like the end of another.
type scopeKey struct {
	text  []byte
	parts int
}

// A scope is shown up to maxScope bytes; of a longer one the beginning is, and a hash
// stands for the whole. Such a scope ends in a digit, a whole one in a bracket.
const (
	maxScope   = 200
	shownScope = 120
)

func newScopeKey(rule string) *scopeKey {
	text := make([]byte, 0, 96)
	return &scopeKey{text: append(append(text, rule...), '[')}
}

// add appends a part. A value that cannot be part of a scope is an error.
func (k *scopeKey) add(value ref.Val) error {
	if k.parts > 0 {
		k.text = append(k.text, ',')
	}
	k.parts++
	var err error
	k.text, err = appendValue(k.text, value, 0)
	return err
}

func (k *scopeKey) finish(features []string) string {
	k.text = append(k.text, ']')
	if len(features) > 0 {
		k.text = append(appendStrings(append(k.text, '['), features), ']')
	}
	if len(k.text) <= maxScope {
		return string(k.text)
	}
	sum := sha256.Sum256(k.text)
	shown := strings.ToValidUTF8(string(k.text[:shownScope]), "")
	return shown + "…" + hex.EncodeToString(sum[:sha256.Size/2])
}
