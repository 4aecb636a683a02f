package wire

import (
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// reserved begins the word for a name that no client is served: one that comes with dynamic
// parameters (DYN-1), or one that begins like such a word.
const reserved = "\x00"

// Words gives the names and the locators of a request as words. A locator without parameters is
// a name. A locator with some becomes a reserved word, and so does a name that begins with a NUL.
func Words(names []string, locators []*discoveryv3.ResourceLocator) []string {
	if len(locators) == 0 && !slices.ContainsFunc(names, IsReserved) {
		return names
	}
	words := make([]string, 0, len(names)+len(locators))
	for _, name := range names {
		words = append(words, word(name, false))
	}
	for _, l := range locators {
		words = append(words, word(l.GetName(), len(l.GetDynamicParameters()) > 0))
	}
	return words
}

func word(name string, parameters bool) string {
	if parameters || IsReserved(name) {
		return reserved + name
	}
	return name
}

// IsReserved reports whether a word stands for a name that is refused. No resource may have a
// name that begins like one.
func IsReserved(word string) bool { return strings.HasPrefix(word, reserved) }

// CutWord gives the name that a word stands for, and whether the client gave it parameters.
func CutWord(word string) (name string, parameters bool) {
	name, marked := strings.CutPrefix(word, reserved)
	return name, marked && !IsReserved(name)
}
