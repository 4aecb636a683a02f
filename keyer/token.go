package keyer

import "fmt"

// Token is what a verified bearer token says.
type Token struct {
	Issuer, Subject string
	Audience        []string
	Claims          map[string]any // but those that change with each token: exp, iat, nbf, jti
}

// TokenOf gives the token with these claims, which are the payload of a JSON Web Token (RFC 7519).
// The result shares no map with them.
func TokenOf(claims map[string]any) (Token, error) {
	t := Token{Claims: make(map[string]any, len(claims))}
	for name, value := range claims {
		var ok bool
		switch name {
		case "iss":
			t.Issuer, ok = value.(string)
		case "sub":
			t.Subject, ok = value.(string)
		case "aud":
			t.Audience, ok = audience(value)
			if !ok {
				return Token{}, fmt.Errorf("claim %q: expected a string or a list of strings", name)
			}
		case "exp", "iat", "nbf", "jti":
			continue
		default:
			ok = true
		}
		if !ok {
			return Token{}, fmt.Errorf("claim %q: expected a string", name)
		}
		t.Claims[name] = value
	}
	return t, nil
}

// audience reads a string or a list of strings, which RFC 7519 both allows.
func audience(value any) ([]string, bool) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	names := make([]string, len(list))
	for i, one := range list {
		if names[i], ok = one.(string); !ok {
			return nil, false
		}
	}
	return names, true
}
