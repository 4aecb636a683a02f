package report

import (
	"fmt"
	"strings"
)

// Put replaces a scenario's section in a document, which stands between two lines
//
//	<!-- begin fanout -->
//	<!-- end fanout -->
//
// and leaves all else as it is. It returns an error if the document has no place for it.
func Put(document, scenario, section string) (string, error) {
	begin, end := "<!-- begin "+scenario+" -->\n", "<!-- end "+scenario+" -->\n"
	before, rest, ok := strings.Cut(document, begin)
	if !ok {
		return "", fmt.Errorf("the document has no line %q", strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("the document has no line %q behind %q", strings.TrimSpace(end), strings.TrimSpace(begin))
	}
	return before + begin + "\n" + strings.TrimSpace(section) + "\n\n" + end + after, nil
}
