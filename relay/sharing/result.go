package sharing

// Result is what sharing comes to. Totals are complete, lists are bounded (see
// [Survey.Result]). As JSON it is the format of "xdsrelay explain --nodes --output json"
// and of /scopes; fields are added to it and not changed.
type Result struct {
	Clients     int     `json:"clients"`                // all that were looked at
	Served      int     `json:"served"`                 // those with a scope for at least one type
	Scopes      int     `json:"scopes"`                 // each is a stream upstream
	Ratio       float64 `json:"clients_per_scope"`      // served clients for each of them
	Alone       int     `json:"scopes_with_one_client"` //
	Isolated    int     `json:"isolated_scopes"`        // of clients with one node and one identity, by otherwise or since a rule failed
	Unmentioned int     `json:"scopes_with_unmentioned_fields"`

	Types    []TypeTotals  `json:"types"`
	Rules    []RuleTotals  `json:"rules"`    // in the order of the configuration
	Fields   []FieldTotals `json:"fields"`   // that clients of one scope differ in and no rule mentions, the most frequent first
	Failures []Case        `json:"failures"` // of rules, by rule and reason, the most frequent first
	Refusals []Case        `json:"refusals"` // likewise
	Largest  []Scope       `json:"largest"`  // the scopes, those with the most clients first
	Lone     []Scope       `json:"alone"`    // some of those with one client
}

// TypeTotals sums up what became of one type.
type TypeTotals struct {
	Type    string `json:"type"` // short name, or the type URL where there is none
	Clients int    `json:"clients"`
	Scopes  int    `json:"scopes"`
	ByName  int    `json:"by_name"` // clients for which it is decided name by name
	Failed  int    `json:"failed"`
	Refused int    `json:"refused"`
}

// RuleTotals sums up what one rule decided, "otherwise" included.
type RuleTotals struct {
	Rule    string `json:"rule"`
	Clients int    `json:"clients"` // for which it decided, at least for one type
	Scopes  int    `json:"scopes"`
	Failed  int    `json:"failed"`
	Refused int    `json:"refused"`
}

// FieldTotals is one field of the node, as in "metadata.version".
type FieldTotals struct {
	Rule   string `json:"rule"`
	Field  string `json:"field"`
	Scopes int    `json:"scopes"` // whose clients differ in it
}

// Case is why clients fare badly.
type Case struct {
	Rule    string `json:"rule"`
	Reason  string `json:"reason"`
	Clients int    `json:"clients"`
	Example string `json:"example_node"` // the ID of one
}

// Scope is one scope: clients that share one stream upstream and one cache.
type Scope struct {
	Upstream string         `json:"upstream"`
	Scope    string         `json:"scope"`
	Rule     string         `json:"rule"`
	Parts    []any          `json:"parts,omitempty"` // of the scope, where a rule decided
	Isolated bool           `json:"isolated,omitempty"`
	Failed   string         `json:"failed,omitempty"` // why the rule could not be evaluated
	Clients  int            `json:"clients"`
	Types    map[string]int `json:"types"`      // clients by type
	First    string         `json:"first_node"` // the ID of the first client, whose node goes upstream
	// Unmentioned are the fields in which nodes of other clients differ from the first
	// one's, and that no rule looks at. Names only: values may be secret (OPS-6).
	Unmentioned []string `json:"unmentioned_fields,omitempty"`
	More        bool     `json:"more_unmentioned_fields,omitempty"` // than are listed
}
