package keyer

import "github.com/xdsrelay/xdsrelay/internal/xds"

// FullStateTypes lists the types of which a state-of-the-world response always
// holds everything that is subscribed to, so that what is absent is deleted
// (RES-2), under the URLs of v3 and v2.
func FullStateTypes() []string {
	var urls []string
	for i := range xds.Types() {
		if t := &xds.Types()[i]; t.FullState {
			urls = append(urls, t.URL, t.V2URL())
		}
	}
	return urls
}

// TypeSet gives type URLs as a set.
func TypeSet(typeURLs []string) map[string]bool {
	set := make(map[string]bool, len(typeURLs))
	for _, typeURL := range typeURLs {
		set[typeURL] = true
	}
	return set
}
