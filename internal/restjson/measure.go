package restjson

// measure is what is known of the JSON of a poll before it is decoded. A value of two bytes takes a hundred times as
// many once it is decoded, so that the size of a body alone bounds nothing.
type measure struct {
	names    int  // values in resource_names and resource_locators
	others   int  // values in all other fields
	presents bool // there is a version_info
}

// measured goes over a body once, and allocates nothing. It takes any text. Text that is no JSON is refused when it is
// decoded, and no more values of it were decoded until then than are counted here.
func measured(body []byte) measure {
	var s scan
	for len(body) > 0 {
		body = body[s.take(body):]
	}
	return s.measure
}

// scan is a measure that is being taken.
type scan struct {
	measure

	depth   int
	text    []byte // the last token if it is a string, with its quotes
	naming  bool   // the present field of the request has names
	version bool   // the next value is version_info
}

// take takes the first token of a text, and returns how long it is.
func (s *scan) take(text []byte) int {
	switch c := text[0]; c {
	case '"':
		n := stringAt(text)
		s.presents = s.presents || s.version && n > len(`""`)
		s.value()
		s.text = text[:n]
		return n
	case '{', '[':
		s.value()
		s.depth++
	case '}', ']':
		s.depth--
	case ':':
		s.key()
	case ',', ' ', '\t', '\r', '\n':
	default:
		s.value()
		return wordAt(text)
	}
	return 1
}

// value counts a value, or a key until its colon comes.
func (s *scan) value() {
	s.count(1)
	s.text, s.version = nil, false
}

func (s *scan) count(n int) {
	if s.naming {
		s.names += n
	} else {
		s.others += n
	}
}

// key notes that the last token was a key.
func (s *scan) key() {
	if s.text == nil {
		return
	}
	s.count(-1)
	if s.depth == 1 {
		s.begin(s.text)
	}
	s.text = nil
}

// begin begins a field of the request. A name that is spelled with escapes counts with the other fields, which have
// less room.
func (s *scan) begin(name []byte) {
	s.naming = false
	switch string(name) {
	case `"resource_names"`, `"resourceNames"`, `"resource_locators"`, `"resourceLocators"`:
		s.naming = true
	case `"version_info"`, `"versionInfo"`:
		s.version = true
	}
}

// stringAt returns how long the string at the beginning of a text is, with its quotes.
func stringAt(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++ // what is escaped
		}
	}
	return len(text)
}

// wordAt returns how long the number or literal at the beginning of a text is.
func wordAt(text []byte) int {
	for i, c := range text {
		switch c {
		case ' ', '\t', '\r', '\n', ',', ':', '"', '[', ']', '{', '}':
			return i
		}
	}
	return len(text)
}
