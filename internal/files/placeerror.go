package files

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// PlaceError is what is wrong with the YAML.
type PlaceError struct {
	File string // "" for what is no file, or where the caller knows it
	// Line and Column count from 1; 0 where they are unknown.
	Line, Column int
	// Message has nothing of the file's contents, if it is one of this package.
	Message string
}

// Error gives "file:line:column: message", without the parts that are unknown.
func (e *PlaceError) Error() string {
	if at := Place(e.File, e.Line, e.Column); at != "" {
		return at + ": " + e.Message
	}
	return e.Message
}

// Place gives "file:line:column", without the parts that are unknown: "" and 0.
func Place(file string, line, column int) string {
	at := file
	for _, n := range []int{line, column} {
		if n == 0 {
			break
		}
		if at != "" {
			at += ":"
		}
		at += strconv.Itoa(n)
	}
	return at
}

func errorAt(n *yaml.Node, message string) *PlaceError {
	return &PlaceError{Line: n.Line, Column: n.Column, Message: message}
}

// parserProblem matches the messages of the YAML parser, which are fixed texts, and
// not those that quote the file.
var parserProblem = regexp.MustCompile(`^(?:found|did not find|could not find|mapping|block|control|invalid|incomplete) [\w '\[\]{},.:<>-]*$`)

// syntaxError makes a PlaceError of one of the YAML parser, which gives the line in
// the text only: "yaml: line 3: mapping values are not allowed in this context".
func syntaxError(data []byte, err error) *PlaceError {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	bad := &PlaceError{Message: "syntax error"}
	if m := regexp.MustCompile(`^line (\d+): ((?s:.*))$`).FindStringSubmatch(message); m != nil {
		bad.Line, _ = strconv.Atoi(m[1]) // digits; an absurd number of them leaves the line unknown
		message = m[2]
	}
	if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(message); m != nil {
		bad.Message = "an alias of nothing"
		bad.Line = 1 + bytes.Count(data[:max(0, bytes.Index(data, []byte("*"+m[1])))], []byte("\n"))
	} else if parserProblem.MatchString(message) {
		bad.Message = message
	}
	// The parser proper counts lines from 0 and leaves 0 out, the scanner below it
	// counts from 1.
	if strings.HasPrefix(message, "did not find expected ") && !strings.Contains(message, "comment or line break") {
		bad.Line++
	}
	// The end of the file counts as a line of its own to the parser.
	bad.Line = min(bad.Line, 1+bytes.Count(bytes.TrimRight(data, "\r\n"), []byte("\n")))
	return bad
}
