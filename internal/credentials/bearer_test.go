package credentials_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/testkit/tokens"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

const (
	name          = "https://issuer.test"
	tokenPatience = 20 * time.Second
)

// reasonOf gives why a token is refused; "" if it is not.
func reasonOf(t *testing.T, err error) credentials.TokenReason {
	t.Helper()
	if err == nil {
		return ""
	}
	bad, ok := errors.AsType[*credentials.TokenError](err)
	if !ok || bad.Error() == "" {
		t.Fatalf("%T: %v", err, err)
	}
	return bad.Reason
}

// verifierOf trusts an issuer, with keys from a file.
func verifierOf(t *testing.T, file string) *credentials.Verifier {
	t.Helper()
	v, err := credentials.NewVerifier(credentials.VerifierConfig{
		Trusts:  []credentials.TokenIssuer{{Issuer: name, Audiences: []string{"xds", "relay"}, File: file}},
		Refresh: 10 * time.Millisecond, Report: func(string, error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

func newFile(t *testing.T, keys ...jose.JSONWebKey) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	tokens.File(t, file, keys...)
	return file
}

// Claims are judged exactly (ACC-1).
func TestClaims_ACC1(t *testing.T) {
	issuer := tokens.NewIssuer(t, name, "1")
	v := verifierOf(t, newFile(t, issuer.Key()))
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for text, tt := range map[string]struct {
		claims tokens.Claims
		want   credentials.TokenReason
	}{
		"good":                     {tokens.Claims{"aud": "xds", "sub": "a"}, ""},
		"one of many audiences":    {tokens.Claims{"aud": []string{"other", "relay"}}, ""},
		"another audience":         {tokens.Claims{"aud": "other"}, credentials.ReasonAudience},
		"no audience":              {tokens.Claims{}, credentials.ReasonAudience},
		"an empty audience":        {tokens.Claims{"aud": []string{""}}, credentials.ReasonAudience},
		"another issuer":           {tokens.Claims{"aud": "xds", "iss": "https://other.test"}, credentials.ReasonIssuer},
		"no issuer":                {tokens.Claims{"aud": "xds", "iss": nil}, credentials.ReasonIssuer},
		"an issuer with a slash":   {tokens.Claims{"aud": "xds", "iss": name + "/"}, credentials.ReasonIssuer},
		"expired":                  {tokens.Claims{"aud": "xds", "exp": in(-time.Minute)}, credentials.ReasonExpired},
		"expired by a wrong clock": {tokens.Claims{"aud": "xds", "exp": in(-2 * time.Second)}, ""},
		"without an expiry":        {tokens.Claims{"aud": "xds", "exp": nil}, credentials.ReasonMalformed},
		"not valid yet":            {tokens.Claims{"aud": "xds", "nbf": in(time.Minute)}, credentials.ReasonEarly},
		"issued later":             {tokens.Claims{"aud": "xds", "iat": in(time.Minute)}, credentials.ReasonEarly},
		"valid since":              {tokens.Claims{"aud": "xds", "nbf": in(-time.Minute), "iat": in(-time.Minute)}, ""},
		"a number as audience":     {tokens.Claims{"aud": 1}, credentials.ReasonMalformed},
		"a text as expiry":         {tokens.Claims{"aud": "xds", "exp": "never"}, credentials.ReasonMalformed},
	} {
		_, err := v.Verify(t.Context(), issuer.Token(tt.claims), nil)
		if got := reasonOf(t, err); got != tt.want {
			t.Errorf("ACC-1: %s: %q, want %q", text, got, tt.want)
		}
	}
}

// What rules see of a projected token of Kubernetes.
func TestToken_ACC1(t *testing.T) {
	issuer := tokens.NewIssuer(t, name, "1")
	v := verifierOf(t, newFile(t, issuer.Key()))
	token, err := v.Verify(t.Context(), issuer.Token(tokens.Claims{
		"aud": []string{"xds"}, "sub": "system:serviceaccount:shop:web", "jti": "x", "iat": time.Now().Unix(), "nbf": time.Now().Unix(),
		"kubernetes.io": map[string]any{"namespace": "shop", "pod": map[string]any{"name": "web-1"}},
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(token.Token), fmt.Sprint(
		"{", name, " system:serviceaccount:shop:web [xds] map[aud:[xds] iss:", name,
		" kubernetes.io:map[namespace:shop pod:map[name:web-1]] sub:system:serviceaccount:shop:web]}"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A token counts only if a key of the issuer signed it, by an algorithm of that key (ACC-1).
func TestSignatures_ACC1(t *testing.T) {
	issuer, thief := tokens.NewIssuer(t, name, "1"), tokens.NewIssuer(t, name, "1")
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte(strings.Repeat("s", 32))
	file := newFile(t, issuer.Key(),
		jose.JSONWebKey{Key: public, KeyID: "ed"}, jose.JSONWebKey{Key: long.Public(), KeyID: "rsa", Algorithm: "RS256"},
		jose.JSONWebKey{Key: p384.Public(), KeyID: "p384", Use: "enc"}, jose.JSONWebKey{Key: secret, KeyID: "shared"},
		jose.JSONWebKey{Key: p384, KeyID: "private"})
	v := verifierOf(t, file)
	claims := func() tokens.Claims {
		return tokens.Claims{"iss": name, "aud": "xds", "exp": time.Now().Add(time.Hour).Unix()}
	}
	spki, err := x509.MarshalPKIXPublicKey(long.Public())
	if err != nil {
		t.Fatal(err)
	}
	asSecret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})
	good := issuer.Token(claims())
	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	none := encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	for text, tt := range map[string]struct {
		token string
		want  credentials.TokenReason
	}{
		"good":                        {good, ""},
		"Ed25519":                     {tokens.Sign(t, jose.EdDSA, private, "ed", claims()), ""},
		"RSA":                         {tokens.Sign(t, jose.RS256, long, "rsa", claims()), ""},
		"no key ID":                   {tokens.Sign(t, jose.EdDSA, private, "", claims()), ""},
		"an algorithm not of the key": {tokens.Sign(t, jose.PS256, long, "rsa", claims()), credentials.ReasonSignature},
		"a key for encryption":        {tokens.Sign(t, jose.ES384, p384, "p384", claims()), credentials.ReasonSignature},
		"a private key in the set":    {tokens.Sign(t, jose.ES384, p384, "private", claims()), credentials.ReasonSignature},
		"another's key":               {thief.Token(claims()), credentials.ReasonSignature},
		"another's ID":                {tokens.Sign(t, jose.EdDSA, private, "1", claims()), credentials.ReasonSignature},
		"no such key":                 {tokens.Sign(t, jose.EdDSA, private, "2", claims()), credentials.ReasonSignature},
		"a shared secret":             {tokens.Sign(t, jose.HS256, secret, "shared", claims()), credentials.ReasonMalformed},
		"the public key as a secret":  {tokens.Sign(t, jose.HS256, asSecret, "rsa", claims()), credentials.ReasonMalformed},
		"none":                        {none, credentials.ReasonMalformed},
		"none with a signature":       {none + parts[2], credentials.ReasonMalformed},
		"no signature":                {parts[0] + "." + parts[1] + ".", credentials.ReasonSignature},
		"another payload": {
			parts[0] + "." + encode(fmt.Appendf(nil, `{"iss":%q,"aud":"xds","exp":99999999999}`, name)) + "." + parts[2], credentials.ReasonSignature,
		},
		"two claims of one name": {
			parts[0] + "." + encode(fmt.Appendf(nil, `{"iss":"x","iss":%q}`, name)) + "." + parts[2], credentials.ReasonMalformed,
		},
		"JSON form": {
			fmt.Sprintf(`{"payload":%q,"protected":%q,"signature":%q}`, parts[1], parts[0], parts[2]), credentials.ReasonMalformed,
		},
		"two parts": {parts[0] + "." + parts[1], credentials.ReasonMalformed},
		"empty":     {"", credentials.ReasonMalformed},
		"too long":  {issuer.Token(tokens.Claims{"x": strings.Repeat("x", 16<<10)}), credentials.ReasonMalformed},
	} {
		_, err := v.Verify(t.Context(), tt.token, nil)
		if got := reasonOf(t, err); got != tt.want {
			t.Errorf("ACC-1: %s: %q, want %q", text, got, tt.want)
		}
	}
}

// A token that names no key is tried with four keys at most, however many its issuer has (ACC-1).
func TestKeysTried_ACC1(t *testing.T) {
	var keys []jose.JSONWebKey
	var issuers []*tokens.Issuer
	for i := range 6 {
		issuer := tokens.NewIssuer(t, name, fmt.Sprint(i))
		issuers, keys = append(issuers, issuer), append(keys, issuer.Key())
	}
	v := verifierOf(t, newFile(t, keys...))
	for i, issuer := range issuers {
		issuer.ID = ""
		want := credentials.TokenReason("")
		if i >= 4 {
			want = credentials.ReasonSignature
		}
		_, err := v.Verify(t.Context(), issuer.Token(tokens.Claims{"aud": "xds"}), nil)
		if got := reasonOf(t, err); got != want {
			t.Errorf("ACC-1: key %d, which the token does not name: %q, want %q", i, got, want)
		}
	}
}

// A signature is verified in its turn. What is no token of a known issuer takes none (LIM-2).
func TestTurn_LIM2(t *testing.T) {
	issuer := tokens.NewIssuer(t, name, "1")
	v := verifierOf(t, newFile(t, issuer.Key()))
	errLate := errors.New("too late")
	for text, tt := range map[string]struct {
		claims      tokens.Claims
		late        bool
		turns, ends int
	}{
		"good":           {tokens.Claims{"aud": "xds"}, false, 1, 1},
		"too late":       {tokens.Claims{"aud": "xds"}, true, 1, 0},
		"another issuer": {tokens.Claims{"aud": "xds", "iss": "https://other.test"}, false, 0, 0},
	} {
		turns, ends := 0, 0
		_, err := v.Verify(t.Context(), issuer.Token(tt.claims), func(context.Context) (func(), error) {
			turns++
			if tt.late {
				return nil, errLate
			}
			return func() { ends++ }, nil
		})
		if turns != tt.turns || ends != tt.ends || errors.Is(err, errLate) != tt.late {
			t.Errorf("LIM-2: %s: %d turns, %d of them ended, %v", text, turns, ends, err)
		}
	}
}

// A header that brings its own key is believed no more than any other.
func TestEmbeddedKey_ACC1(t *testing.T) {
	issuer, thief := tokens.NewIssuer(t, name, "1"), tokens.NewIssuer(t, name, "1")
	v := verifierOf(t, newFile(t, issuer.Key()))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":%q,"aud":"xds","exp":99999999999}`, name))
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), token, nil); reasonOf(t, err) != credentials.ReasonSignature {
		t.Errorf("ACC-1: an embedded key: %v", err)
	}
	if _, err := v.Verify(t.Context(), thief.Token(tokens.Claims{"aud": "xds"}), nil); reasonOf(t, err) != credentials.ReasonSignature {
		t.Errorf("ACC-1: another's key: %v", err)
	}
}

func TestOf_ACC1(t *testing.T) {
	for _, tt := range []struct {
		values []string
		token  string
		want   credentials.TokenReason
	}{
		{nil, "", ""},
		{[]string{"Bearer x.y.z"}, "x.y.z", ""},
		{[]string{"bEARER   x"}, "x", ""},
		{[]string{"Basic eDp5"}, "", ""},
		{[]string{""}, "", ""},
		{[]string{"Bearer"}, "", credentials.ReasonMalformed},
		{[]string{"Bearer x y"}, "", credentials.ReasonMalformed},
		{[]string{"Bearer x, Bearer y"}, "", credentials.ReasonMalformed},
		{[]string{"Bearer x", "Bearer x"}, "", credentials.ReasonSeveral},
		{[]string{"Basic x", "Bearer y"}, "", credentials.ReasonSeveral},
	} {
		token, err := credentials.BearerToken(tt.values)
		if got := reasonOf(t, err); token != tt.token || got != tt.want {
			t.Errorf("ACC-1: %q: %q, %q", tt.values, token, got)
		}
	}
}

// A file is read again. A key that it does not have any more takes its tokens along; a file that
// cannot be used changes nothing.
func TestFile_ACC1(t *testing.T) {
	old, next := tokens.NewIssuer(t, name, "1"), tokens.NewIssuer(t, name, "2")
	file := newFile(t, old.Key())
	v := verifierOf(t, file)
	claims := tokens.Claims{"aud": "xds"}
	token, err := v.Verify(t.Context(), old.Token(claims), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Check(token, time.Now()); err != nil {
		t.Error(err)
	}
	if err := v.Check(token, time.Now().Add(2*time.Hour)); reasonOf(t, err) != credentials.ReasonExpired {
		t.Errorf("ACC-1: after its time: %v", err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), next.Token(claims), nil); reasonOf(t, err) != credentials.ReasonSignature {
		t.Errorf("ACC-1: %v", err)
	}
	if err := v.Check(token, time.Now()); err != nil {
		t.Errorf("a file that cannot be used: %v", err)
	}
	tokens.File(t, file, next.Key())
	if _, gone := wait.Until(tokenPatience, func() bool { return v.Check(token, time.Now()) != nil }); !gone {
		t.Fatal("ACC-1: the token of a key that is gone counts")
	}
	if err := v.Check(token, time.Now()); reasonOf(t, err) != credentials.ReasonWithdrawn {
		t.Errorf("ACC-1: %v", err)
	}
	if _, err := v.Verify(t.Context(), next.Token(claims), nil); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	var nobody *credentials.Verifier
	if err := nobody.Check(token, time.Now()); reasonOf(t, err) != credentials.ReasonWithdrawn {
		t.Errorf("ACC-1: without issuers: %v", err)
	}
}

func TestFileUnusable_ACC1(t *testing.T) {
	dir := t.TempDir()
	for text, content := range map[string]string{
		"empty": "", "no keys": `{"keys":[]}`, "an array": `[]`, "only a secret": `{"keys":[{"kty":"oct","k":"c3Nzc3Nzc3M"}]}`,
		"short RSA": `{"keys":[{"kty":"RSA","e":"AQAB","n":"` + strings.Repeat("_", 86) + `"}]}`,
		"many":      `{"keys":[` + strings.Repeat("{},", 200) + `{}]}`,
		"large":     `{"keys":[],"x":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		file := filepath.Join(dir, text)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := credentials.NewVerifier(credentials.VerifierConfig{Trusts: []credentials.TokenIssuer{{Issuer: name, File: file}}})
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", text, err)
		}
		if v != nil {
			v.Close()
		}
	}
	if _, err := credentials.NewVerifier(credentials.VerifierConfig{Trusts: []credentials.TokenIssuer{{Issuer: name, File: filepath.Join(dir, "missing")}}}); err == nil {
		t.Error("a missing file is no error")
	}
}

// server serves keys over TLS, and counts who asks.
type server struct {
	*httptest.Server

	asked  atomic.Int64
	answer atomic.Pointer[http.HandlerFunc]
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := new(server)
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) serves(f http.HandlerFunc) { s.answer.Store(&f) }

// ca is a file with the server's certificate.
func (s *server) ca(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// verifier trusts an issuer whose keys the server has. What is reported comes through the channel.
func (s *server) verifier(t *testing.T, caFile string) (*credentials.Verifier, <-chan error) {
	t.Helper()
	reports := make(chan error, 10)
	v, err := credentials.NewVerifier(credentials.VerifierConfig{
		Trusts: []credentials.TokenIssuer{{Issuer: name, Audiences: []string{"xds"}, URL: s.URL, CAFile: caFile}},
		Report: func(_ string, err error) { reports <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v, reports
}

// Keys come from a URL. A token with an unknown key ID has them fetched again, but not each time.
func TestURL_ACC1(t *testing.T) {
	old, next := tokens.NewIssuer(t, name, "1"), tokens.NewIssuer(t, name, "2")
	s := newServer(t)
	s.serves(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(tokens.KeySet(t, old.Key())) })
	v, _ := s.verifier(t, s.ca(t))
	claims := tokens.Claims{"aud": "xds"}
	if _, err := v.Verify(t.Context(), old.Token(claims), nil); err != nil {
		t.Fatalf("the first token waits for the keys: %v", err)
	}
	for range 20 {
		if _, err := v.Verify(t.Context(), next.Token(claims), nil); reasonOf(t, err) != credentials.ReasonSignature {
			t.Errorf("ACC-1: %v", err)
		}
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("key IDs that are made up had the keys fetched %d times", n)
	}
}

// What the server says that is of no use is reported, and no token counts by it.
func TestURLUnusable_ACC1(t *testing.T) {
	issuer := tokens.NewIssuer(t, name, "1")
	keys := tokens.KeySet(t, issuer.Key())
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) }))
	defer plain.Close()
	for text, tt := range map[string]struct {
		serves http.HandlerFunc
		noCA   bool
		want   string
	}{
		"an error":        {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, false, "403"},
		"a page":          {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, false, "no JSON Web Key Set"},
		"too much":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) }, false, "more than"},
		"a redirect":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) }, false, "redirects"},
		"another's name":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) }, true, "certificate"},
		"a broken answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, "EOF"},
	} {
		s := newServer(t)
		s.serves(tt.serves)
		ca := ""
		if !tt.noCA {
			ca = s.ca(t)
		}
		v, reports := s.verifier(t, ca)
		if err := <-reports; err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", text, err, tt.want)
		}
		if _, err := v.Verify(t.Context(), issuer.Token(tokens.Claims{"aud": "xds"}), nil); reasonOf(t, err) != credentials.ReasonNoKeys {
			t.Errorf("ACC-1: %s: %v", text, err)
		}
	}
}

// Closing does not wait for a server that does not answer.
func TestClose_ACC1(t *testing.T) {
	s := newServer(t)
	asked := make(chan struct{}, 1)
	s.serves(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	v, _ := s.verifier(t, s.ca(t))
	<-asked
	began := time.Now()
	v.Close()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("it took %v", d)
	}
}

// Keys that cannot be read again count for ever, or for as long as the operator says. How old they are is known (ACC-1).
func TestKeysMaxAge_ACC1(t *testing.T) {
	issuer := tokens.NewIssuer(t, name, "1")
	for _, most := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			file := newFile(t, issuer.Key())
			v, err := credentials.NewVerifier(credentials.VerifierConfig{
				Trusts: []credentials.TokenIssuer{{Issuer: name, Audiences: []string{"xds"}, File: file, MaxAge: most}}, Refresh: time.Minute, Report: func(string, error) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			verify := func() credentials.TokenReason {
				_, err := v.Verify(t.Context(), issuer.Token(tokens.Claims{"aud": "xds", "exp": time.Now().Add(24 * time.Hour).Unix()}), nil)
				return reasonOf(t, err)
			}
			<-time.After(2 * time.Hour)
			if age := v.KeyAges()[name]; verify() != "" || age > time.Minute {
				t.Errorf("ACC-1: keys that are read again: %q, %v old", verify(), age)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Hour)
			if age := v.KeyAges()[name]; age < 2*time.Hour-time.Minute || (verify() != "") != (most > 0) {
				t.Errorf("ACC-1: keys that count for %v: %q after %v", most, verify(), age)
			}
		})
	}
}
