package keyer

import "strings"

// reservedKeys begin context keys that are reserved for what proxies and control planes
// add (NAME-7).
const reservedKeys = "xds."

// CheckConfigured refuses reserved context keys in a text of the relay's own
// configuration: those that begin with "xds.", or with a character that is not
// alphanumeric (NAME-7). Only the program that resolves a URL may add them. On the wire
// every key passes. The text is an xdstp name or the beginning of one, or else everything is
// allowed. Alternatives are held to the same. The error is a [*NameError].
func CheckConfigured(text string) error {
	if !IsXDSTP(text) {
		return nil
	}
	head, fragment, _ := strings.Cut(text, "#")
	path, query, _ := strings.Cut(head, "?")
	at := len(path) + 1
	for parameter := range strings.SplitSeq(query, "&") {
		key, _, _ := strings.Cut(parameter, "=")
		switch key = unescape(key); {
		case key == "": // Parse refuses it in a name
		case strings.HasPrefix(key, reservedKeys):
			return fail(text, at, "context key %q: keys beginning with %q are reserved for proxies and control planes, "+
				"and must not be configured", Shorten(key), reservedKeys)
		case !plainKeyChars().has(key[0]):
			return fail(text, at, "context key %q: keys beginning with a character that is not a letter or digit are reserved "+
				"for proxies and control planes, and must not be configured", Shorten(key))
		}
		at += len(parameter) + len("&")
	}
	at = len(head) + 1
	for directive := range strings.SplitSeq(fragment, ",") {
		if alt, is := strings.CutPrefix(directive, "alt="); is {
			if err := CheckConfigured(unescape(alt)); err != nil {
				return inAlternative(text, at+len("alt="), err)
			}
		}
		at += len(directive) + len(",")
	}
	return nil
}
