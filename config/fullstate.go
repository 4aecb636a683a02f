package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// FullStateTypeURLs gives the type URLs of full_state_types in their order, each
// once, and behind each v3 type its v2 form where it has one: the rule of RES-2
// is the same for both.
func (c *Config) FullStateTypeURLs() []string { return typeURLs(c.FullStateTypes) }

// typeURLs gives the type URLs of short names and type URLs, each once, with v2 forms.
func typeURLs(types []string) []string {
	var urls []string
	add := func(url string) {
		if url != "" && !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	for _, t := range types {
		url := resolveType(t)
		add(url)
		add(keyer.V2TypeURL(url))
	}
	return urls
}

// Passes reports whether losses of a type pass the guard because Except lists it.
func (g *Guard) Passes() func(typeURL string) bool {
	except := make(map[string]bool, len(g.Except))
	for _, t := range g.Except {
		except[resolveType(t)] = true
	}
	return func(typeURL string) bool { return except[typeURL] }
}

// resolveType gives the type URL of a short name, and a type URL as it is.
func resolveType(name string) string {
	if url, ok := keyer.TypeURL(name); ok {
		return url
	}
	return name
}

// typeList checks a list of short names and type URLs.
func (k *checker) typeList(path string, types []string) {
	first := make(map[string]int)
	for i, t := range types {
		at, url := fmt.Sprintf("%s[%d]", path, i), resolveType(t)
		if !k.typeURL(at, t) {
			continue
		}
		if j, taken := first[url]; taken {
			k.fail(at, "%q is already listed as %s[%d]", t, path, j)
			continue
		}
		first[url] = i
	}
}

// typeURL checks a short name or type URL.
func (k *checker) typeURL(path, name string) bool {
	// What comes before the last slash may be anything, what comes behind it is the name
	// of a message.
	prefix, message, ok := strings.Cut(resolveType(name), "/")
	message = message[strings.LastIndex(message, "/")+1:]
	if ok && prefix != "" && message != "" && strings.Trim(message, wordCharacters+".") == "" {
		return true
	}
	k.fail(path, "expected one of %s, or a type URL such as %s, got %q",
		strings.Join(keyer.ShortNames(), ", "), "type.googleapis.com/envoy.config.cluster.v3.Cluster", name)
	return false
}
