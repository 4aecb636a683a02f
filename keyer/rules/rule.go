package rules

// Rule says of some clients what they share. Match, Scope and the fields of Node are
// CEL expressions: what there is in them stands in the package's documentation.
type Rule struct {
	// Name is shown to people and begins the scopes: letters, digits and any of -_. only.
	Name string
	// Match is true for the clients, types and names that the rule is for. A rule whose
	// match is just false is switched off.
	Match string
	// Scope are the parts of the scope, in order: clients for which all of them have the
	// same values share. None puts all that match into one scope.
	Scope []string
	// Upstream names the upstream that is asked; "": the default one.
	Upstream string
	// Node is what the control plane sees.
	Node Node
}

// Node is how a rule has the upstream node built (AGG-3). That is the relay's own with the
// fields of the client's that the rule's scope names; each field that is given here
// replaces that field.
type Node struct {
	// First has the node of the scope's first client go up as it is. Nothing else is given
	// then.
	First bool

	ID, Cluster string
	Locality    Locality
	// Metadata replaces the metadata as a whole, if it is not nil. A key whose value is
	// an optional without value is left out.
	Metadata map[string]string
}

// Locality has an expression for each field of a locality.
type Locality struct{ Region, Zone, SubZone string }

// Config is what a [Set] is compiled from.
type Config struct {
	Rules     []Rule
	Otherwise Policy
	// Upstream is the default upstream, which the variable of this name is: "" if there
	// is none.
	Upstream string
}

// Problem is one thing that is wrong with a rule (AGG-4).
type Problem struct {
	Rule int // its index
	// Field is where: "name", "match", "require", "scope[1]", "node.id", "node.locality.zone",
	// "node.metadata.role" and so on.
	Field string
	// Line and Column count from 1 in the expression, Column in characters; 0 where it is
	// the field as a whole.
	Line, Column int
	Message      string
}
