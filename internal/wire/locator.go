package wire

import (
	"net/url"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// locatorMark begins a locator in the place of a name, and ends its parameters. No
// name may begin with it.
const locatorMark = "\x00"

// Locator is a name with dynamic parameters (DYN-1) as one word, which stands in the
// place of a name wherever names are kept, sorted and counted: the same for the same
// name and parameters. Without parameters it is the name itself.
func Locator(name string, parameters map[string]string) string {
	if len(parameters) == 0 {
		return name
	}
	values := make(url.Values, len(parameters))
	for key, value := range parameters {
		values.Set(key, value)
	}
	return locatorMark + values.Encode() + locatorMark + name
}

// IsLocator reports whether a word stands for a name with parameters.
func IsLocator(word string) bool { return strings.HasPrefix(word, locatorMark) }

// CutLocator gives the parameters of a word as they stand in it, and its name. Of a
// plain name there are none.
func CutLocator(word string) (parameters, name string) {
	if !IsLocator(word) {
		return "", word
	}
	parameters, name, _ = strings.Cut(word[len(locatorMark):], locatorMark)
	return parameters, name
}

// LocatedName is the name that a word stands for.
func LocatedName(word string) string {
	_, name := CutLocator(word)
	return name
}

// Respell gives a word with another name and the same parameters.
func Respell(word, name string) string {
	if !IsLocator(word) {
		return name
	}
	return word[:len(word)-len(LocatedName(word))] + name
}

// Parameters are the dynamic parameters of a word, nil for a plain name.
func Parameters(word string) map[string]string {
	encoded, _ := CutLocator(word)
	if encoded == "" {
		return nil
	}
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return nil // Locator has written it
	}
	parameters := make(map[string]string, len(values))
	for key := range values {
		parameters[key] = values.Get(key)
	}
	return parameters
}

// ResourceLocator is the word as it stands in a request.
func ResourceLocator(word string) *discoveryv3.ResourceLocator {
	return &discoveryv3.ResourceLocator{Name: LocatedName(word), DynamicParameters: Parameters(word)}
}

// SplitLocators gives the plain names among words, and the others as they stand in a
// request. Without locators names is words itself.
func SplitLocators(words []string) (names []string, locators []*discoveryv3.ResourceLocator) {
	for i, word := range words {
		switch {
		case IsLocator(word):
			if locators == nil {
				names = append(names, words[:i]...)
			}
			locators = append(locators, ResourceLocator(word))
		case locators != nil:
			names = append(names, word)
		}
	}
	if locators == nil {
		return words, nil
	}
	return names, locators
}

// WordSize is what a word takes in a request at most, its tag included.
func WordSize(word string) int {
	if !IsLocator(word) {
		return 1 + protowire.SizeBytes(len(word))
	}
	size := sizeBytesField(len(LocatedName(word)))
	for key, value := range Parameters(word) {
		size += sizeBytesField(sizeBytesField(len(key)) + sizeBytesField(len(value)))
	}
	return sizeBytesField(size)
}
