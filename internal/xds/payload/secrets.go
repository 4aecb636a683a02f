package payload

import (
	"strings"
	"sync/atomic"
)

// Secrets are the types whose payloads are never shown or stored, beside those of Envoy's API. nil and the zero Secrets have
// no others. The methods may be called from any goroutine.
type Secrets struct {
	messages atomic.Pointer[map[string]bool]
}

// Set gives them by their type URLs, in place of those from before (ACC-7).
func (t *Secrets) Set(typeURLs []string) {
	messages := make(map[string]bool)
	for _, url := range typeURLs {
		messages[messageOf(url)] = true
	}
	t.messages.Store(&messages)
}

// Has reports whether a type is that of secrets, of any version of the API, or of lists that may
// hold them inline.
func (t *Secrets) Has(typeURL string) bool {
	message := messageOf(typeURL)
	name := message[strings.LastIndexByte(message, '.')+1:]
	if strings.HasSuffix(name, "Secret") || strings.HasSuffix(name, "SecretCollection") {
		return true
	}
	if t == nil {
		return false
	}
	own := t.messages.Load()
	return own != nil && ((*own)[message] || (*own)[strings.TrimSuffix(message, "Collection")])
}

// messageOf is the name of the message that a type URL stands for.
func messageOf(typeURL string) string { return typeURL[strings.LastIndexByte(typeURL, '/')+1:] }

// keyEndings are how the keys end, without - and _, whose values are credentials in what has no fields of its own for
// them: Structs and headers.
var keyEndings = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "secretkey", "credential", "credentials", "authorization", "cookie"}

var withoutMarks = strings.NewReplacer("-", "", "_", "")

// credential reports whether a value with this key is not to be shown.
func credential(key string) bool {
	key = withoutMarks.Replace(strings.ToLower(key))
	for _, ending := range keyEndings {
		if strings.HasSuffix(key, ending) {
			return true
		}
	}
	return false
}
