package logs

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
)

func TestMask_OPS6(t *testing.T) {
	key := make([]byte, 600)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	block := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	escaped := strings.ReplaceAll(block, "\n", `\n`)
	const begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
	token := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlLXdpdGgtZGFzaA"
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "Proto constraint validation failed", "Proto constraint validation failed"},
		{"a PEM block", "a key:\n" + block + "is bad", "a key:\n" + begin + masked + end + "\nis bad"},
		{"a PEM block with escaped newlines", `private_key { inline_bytes: x` + escaped + `} is bad`, `private_key { inline_bytes: x` + begin + masked + end + `\n} is bad`},
		{"two blocks", block + "and" + block, begin + masked + end + "\nand" + begin + masked + end + "\n"},
		{"a block without its end", "a key: " + block[:len(block)/2], "a key: " + begin + masked},
		{"a block without its beginning", block[len(block)/2:] + "is bad", masked + end + "\nis bad"},
		{"a token", "the token " + token + " is old", "the token " + masked + " is old"},
		{"an inline string", `password { inline_string: "hunter\"2" } is bad`, `password { inline_string: "` + masked + `" } is bad`},
		{"an inline string in JSON", `{"inlineString":"hunter2"}`, `{"inlineString":"` + masked + `"}`},
		{"an inline string without its end", `inline_string: "hunt`, `inline_string: "` + masked},
		{"base64", "bytes " + base64.StdEncoding.EncodeToString(key) + ".", "bytes " + masked + "."},
		{"a long path stays", "/" + strings.Repeat("path/to/", 20), "/" + strings.Repeat("path/to/", 20)},
		{"a hash stays", strings.Repeat("0a1b2c3d", 16), strings.Repeat("0a1b2c3d", 16)},
		{"a name stays", "xdstp://a.example.com/envoy.config.cluster.v3.Cluster/" + strings.Repeat("Team1-", 20) + "?v=2", "xdstp://a.example.com/envoy.config.cluster.v3.Cluster/" + strings.Repeat("Team1-", 20) + "?v=2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Mask(tt.text)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if again := Mask(got); again != got {
				t.Errorf("masked again it is %q", again)
			}
		})
	}
}

// Nothing of a key is left, wherever the cut between head and tail is.
func TestOf_MasksWhatACutLeaves_OPS6(t *testing.T) {
	key := strings.Repeat("Q", 63) + "x9" + strings.Repeat("Z", 3000)
	block := "-----BEGIN PRIVATE KEY-----\n" + key + "\n-----END PRIVATE KEY-----"
	for before := 0; before < 3*ReasonBytes; before += 97 {
		got := Excerpt(strings.Repeat("y ", before/2)+block+strings.Repeat(" z", 2000), ReasonBytes)
		if strings.Contains(got, "QQQ") || strings.Contains(got, "ZZZ") {
			t.Fatalf("%d bytes before it: of the key is left %q", before, got)
		}
	}
}
