package keyer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/cncf/xds/go/xds/core/v3"
)

// Locator gives the xdstp URL of a structured locator, in its resolved form
// (see [Name.Resolved]): in a directory or a redirect, a name is given this way
// (LIST-2, LOC-1). The components are data and are percent-encoded here: only
// the slashes of the id stay, and an asterisk that is its last segment stays
// that of a glob. A nil locator counts as an empty one.
//
// The error says what is missing or not allowed; it is a [*NameError] if the
// components are there but make no name.
func Locator(l *corev3.ResourceLocator) (string, error) {
	text, err := locatorText(l, 0)
	if err != nil {
		return "", fmt.Errorf("resource locator: %w", err)
	}
	n, err := Parse(text)
	if err != nil {
		return "", fmt.Errorf("resource locator: %w", err)
	}
	return n.Resolved(), nil
}

// locatorText spells a locator that is the alternative of depth others. Parse
// has the last word on it; what is refused here could not be spelled at all, or
// not within bounds.
func locatorText(l *corev3.ResourceLocator, depth int) (string, error) {
	switch {
	case depth > maxAlternatives:
		return "", fmt.Errorf("more than %d alternatives in a chain", maxAlternatives)
	case l.GetScheme() != corev3.ResourceLocator_XDSTP:
		return "", fmt.Errorf("scheme %s: only XDSTP can be resolved over xDS", l.GetScheme())
	case l.GetResourceType() == "":
		return "", errors.New("the resource type is missing")
	case l.GetId() == "":
		return "", errors.New("the id is missing")
	}
	var b strings.Builder
	b.WriteString(prefix)
	escape(&b, l.GetAuthority(), authorityChars())
	b.WriteByte('/')
	escape(&b, l.GetResourceType(), segmentChars())
	b.WriteByte('/')
	escape(&b, l.GetId(), pathChars())
	writeContext(&b, l.GetExactContext().GetParams())
	if err := writeDirectives(&b, l.GetDirectives(), depth); err != nil {
		return "", err
	}
	return b.String(), nil
}

// writeContext writes a query, sorted so that an error about one of its keys is
// the same each time.
func writeContext(b *strings.Builder, params map[string]string) {
	encoded := make([]param, 0, len(params))
	for key, value := range params {
		encoded = append(encoded, param{key: escapeText(key, contextKeyChars()), value: escapeText(value, contextValueChars())})
	}
	slices.SortFunc(encoded, func(a, b param) int { return cmp.Compare(a.key, b.key) })
	separator := byte('?')
	for _, p := range encoded {
		b.WriteByte(separator)
		b.WriteString(p.key)
		b.WriteByte('=')
		b.WriteString(p.value)
		separator = '&'
	}
}

// writeDirectives writes the fragment of a locator that is the alternative of
// depth others.
func writeDirectives(b *strings.Builder, directives []*corev3.ResourceLocator_Directive, depth int) error {
	// More than one of each is refused, but not before all are spelled.
	if len(directives) > 2 {
		return fmt.Errorf("%d directives: alt and entry may be given once each", len(directives))
	}
	separator := byte('#')
	for i, directive := range directives {
		b.WriteByte(separator)
		separator = ','
		switch directive.GetDirective().(type) {
		case *corev3.ResourceLocator_Directive_Alt:
			alt, err := locatorText(directive.GetAlt(), depth+1)
			if err != nil {
				return fmt.Errorf("its alternative: %w", err)
			}
			b.WriteString("alt=")
			escape(b, alt, directiveChars())
		case *corev3.ResourceLocator_Directive_Entry:
			b.WriteString("entry=")
			escape(b, directive.GetEntry(), directiveChars())
		default:
			return fmt.Errorf("directive %d is neither alt nor entry", i+1)
		}
	}
	return nil
}

// escapeText is escape to a string.
func escapeText(s string, allowed charset) string {
	var b strings.Builder
	b.Grow(len(s))
	escape(&b, s, allowed)
	return b.String()
}
