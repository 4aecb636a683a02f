package plane

import (
	"slices"
	"strings"
)

const scheme = "xdstp://"

func isXDSTP(name string) bool { return strings.HasPrefix(name, scheme) }

// key is the one spelling of all that mean the same resource: percent-encoding is
// undone where the character stands for itself, and context parameters are sorted.
// Other names are their own key.
func key(name string) string {
	if !isXDSTP(name) {
		return name
	}
	path, query, has := strings.Cut(strings.TrimPrefix(name, scheme), "?")
	path = decoded(path, "/?#%*")
	if !has {
		return scheme + path
	}
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		parameters[i] = decoded(p, "&=#%")
	}
	slices.Sort(parameters)
	return scheme + path + "?" + strings.Join(parameters, "&")
}

// decoded undoes percent-encoding, but of the characters in keep.
func decoded(s, keep string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := strings.IndexByte(hexDigits, upper(s[i+1])), strings.IndexByte(hexDigits, upper(s[i+2]))
			if high >= 0 && low >= 0 && !strings.ContainsRune(keep, rune(high<<4|low)) {
				b.WriteByte(byte(high<<4 | low))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

const hexDigits = "0123456789ABCDEF"

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// globOf is the glob collection, in its one spelling, that an xdstp name is a member
// of; "" for other names.
func globOf(name string) string {
	if !isXDSTP(name) {
		return ""
	}
	path, query, has := strings.Cut(key(name), "?")
	end := strings.LastIndexByte(path, '/')
	if has {
		query = "?" + query
	}
	return path[:end+1] + wildcard + query
}
