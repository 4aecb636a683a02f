package cache

// Name is a resource name, a glob or "*" as a client says it.
type Name struct {
	Spelling string // to the letter; what the client is answered with (NAME-4). "*" may be spelled "" (SUB-4).
	Key      string // canonical (keyer.Key)
}

// Kind tells the two tables of a type apart.
type Kind uint8

// The kinds.
const (
	WholeType Kind = iota // the wildcard "*"
	ByName                // names and globs
)

func (k Kind) String() string { return [...]string{"wildcard", "named"}[k] }

// Wildcard is the name under which a type is subscribed to as a whole (SUB-1).
const Wildcard = "*"

// tableKey names a table within its store.
type tableKey struct {
	typeURL string
	kind    Kind
}

// with adds a key to a set. The set is made with its first key.
func with[K comparable](set map[K]struct{}, key K) map[K]struct{} {
	if set == nil {
		set = make(map[K]struct{})
	}
	set[key] = struct{}{}
	return set
}
