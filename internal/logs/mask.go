package logs

import (
	"regexp"
	"strings"
	"sync"
)

// masked stands where a secret stood.
const masked = "(masked)"

// What clients quote of a resource that they reject may be a secret (OPS-6): Envoy prints the
// resource in its text form, and some messages quote a file's content.
var (
	// A PEM block, also one whose newlines are escaped, and one that was cut off at its end.
	pemBlock = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(-----BEGIN [^-\n]{1,64}-----)(?s:.*?)(-----END [^-\n]{1,64}-----|$)`)
	})
	// The rest of a PEM block that was cut off at its beginning.
	pemRest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?s:.*?)(-----END [^-\n]{1,64}-----)`) })
	// A JSON Web Token.
	webToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{8,}(\.[\w-]*)?`) })
	// A field of a secret in the text or JSON form of protobuf: inline_string: "…".
	secretField = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)("?\b(?:inline_?string|inline_?bytes|password|secret_?key|session_?token|access_?token)"?\s*:\s*)"(?:\\.|[^"\\])*("|$)`)
	})
)

// Mask replaces what looks like a secret in a text: PEM blocks, tokens, inline values and long
// runs of base64. The rest stays as it is. Most texts have none of it, and cost one look.
func Mask(text string) string {
	if strings.Contains(text, "-----") {
		if begin, end := strings.Index(text, "-----BEGIN "), strings.Index(text, "-----END "); end >= 0 && (begin < 0 || end < begin) {
			text = pemRest().ReplaceAllString(text, masked+"$1")
		}
		text = pemBlock().ReplaceAllString(text, "${1}"+masked+"$2")
	}
	if strings.Contains(text, "eyJ") {
		text = webToken().ReplaceAllString(text, masked)
	}
	for _, field := range []string{"nline", "assword", "ecret", "oken"} {
		if strings.Contains(text, field) {
			text = secretField().ReplaceAllString(text, `${1}"`+masked+`$2`)
			break
		}
	}
	return maskRuns(text)
}

// shortestRun is how long a run is at least that may be base64 of a key.
const shortestRun = 64

// maskRuns replaces long runs of base64. A run that is all of a kind, such as a path or a hash
// in hexadecimal form, stays: a key's has capitals, small letters and digits.
func maskRuns(text string) string {
	var out strings.Builder
	begin, kept := 0, 0
	var small, capital, digit bool
	for i := 0; i <= len(text); i++ {
		var c byte // ends the last run
		if i < len(text) {
			c = text[i]
		}
		switch {
		case c >= 'a' && c <= 'z':
			small = true
		case c >= 'A' && c <= 'Z':
			capital = true
		case c >= '0' && c <= '9':
			digit = true
		case c == '+' || c == '/' || c == '=':
		default:
			if i-begin >= shortestRun && small && capital && digit {
				out.WriteString(text[kept:begin])
				out.WriteString(masked)
				kept = i
			}
			begin, small, capital, digit = i+1, false, false, false
		}
	}
	if kept == 0 {
		return text
	}
	out.WriteString(text[kept:])
	return out.String()
}
