package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// What follows is the vocabulary of envoyproxy/xds-relay's aggregation rules and what
// its relay makes of a request, so that docs/migrating-from-xds-relay.md can be held to
// it. Every field is a construct that the document has an example of.
type (
	theirConfig   struct{ Fragments []theirFragment }
	theirFragment struct{ Rules []theirRule }
	theirRule     struct {
		Match  theirMatch
		Result theirResult
	}

	theirMatch struct {
		Any         *bool           `yaml:"any_match" oneof:"match"`
		And         *theirMatchSet  `yaml:"and_match" oneof:"match"`
		Or          *theirMatchSet  `yaml:"or_match" oneof:"match"`
		Not         *theirMatch     `yaml:"not_match" oneof:"match"`
		RequestType *theirTypes     `yaml:"request_type_match" oneof:"match"`
		RequestNode *theirNodeMatch `yaml:"request_node_match" oneof:"match"`
	}
	theirMatchSet  struct{ Rules []theirMatch }
	theirTypes     struct{ Types []string }
	theirNodeMatch struct {
		ID       *theirStringMatch   `yaml:"id_match" oneof:"node match"`
		Cluster  *theirStringMatch   `yaml:"cluster_match" oneof:"node match"`
		Locality *theirLocalityMatch `yaml:"locality_match" oneof:"node match"`
		Metadata *theirMetadataMatch `yaml:"node_metadata_match" oneof:"node match"`
	}
	theirStringMatch struct {
		Exact *string `yaml:"exact_match" oneof:"string match"`
		Regex *string `yaml:"regex_match" oneof:"string match"`
	}
	theirLocalityMatch struct {
		Region  *theirStringMatch
		Zone    *theirStringMatch
		SubZone *theirStringMatch `yaml:"sub_zone"`
	}
	theirMetadataMatch struct {
		Path  []theirSegment
		Match theirValueMatch
	}
	theirSegment    struct{ Key string }
	theirValueMatch struct {
		String *theirStringMatch `yaml:"string_match" oneof:"value match"`
		Bool   *theirBoolMatch   `yaml:"bool_match" oneof:"value match"`
	}
	theirBoolMatch struct {
		Value bool `yaml:"value_match"`
	}

	theirResult struct {
		And           *theirAndResult     `yaml:"and_result" oneof:"result"`
		RequestNode   *theirNodeFragment  `yaml:"request_node_fragment" oneof:"result"`
		ResourceNames *theirNamesFragment `yaml:"resource_names_fragment" oneof:"result"`
		String        *string             `yaml:"string_fragment" oneof:"result"`
	}
	theirAndResult struct {
		Results []theirResult `yaml:"result_predicates"`
	}
	theirNodeFragment struct {
		ID       *theirAction         `yaml:"id_action" oneof:"node fragment"`
		Cluster  *theirAction         `yaml:"cluster_action" oneof:"node fragment"`
		Locality *theirLocalityAction `yaml:"locality_action" oneof:"node fragment"`
		Metadata *theirMetadataAction `yaml:"node_metadata_action" oneof:"node fragment"`
	}
	theirLocalityAction struct {
		Region  *theirAction `yaml:"region_action"`
		Zone    *theirAction `yaml:"zone_action"`
		SubZone *theirAction `yaml:"subzone_action"`
	}
	theirMetadataAction struct {
		Path   []theirSegment
		Action theirAction
	}
	theirNamesFragment struct {
		Element int
		Action  theirAction
	}
	theirAction struct {
		Exact *bool             `oneof:"action"`
		Regex *theirRegexAction `yaml:"regex_action" oneof:"action"`
	}
	theirRegexAction struct{ Pattern, Replace string }
)

// theirRequest is what a key is worked out from.
type theirRequest struct {
	node  *corev3.Node
	typ   string
	names []string
}

const theirEndpoints = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

var errTheirEmpty = errors.New("an empty value")

// key gives the key of the request, and an error where their relay has none: no rule
// matches, or a value that is looked at is empty, which no other rule makes good.
func (c *theirConfig) key(r theirRequest) (string, error) {
	if r.typ == theirEndpoints && len(r.names) == 0 {
		return "", errors.New("endpoints without names")
	}
	var pieces []string
	for _, f := range c.Fragments {
		// Not only the first: each rule that matches gives a piece.
		for _, rule := range f.Rules {
			matches, err := rule.Match.matches(r)
			if err != nil {
				return "", err
			}
			if !matches {
				continue
			}
			piece, err := rule.Result.piece(r)
			if err != nil {
				return "", err
			}
			pieces = append(pieces, piece)
		}
	}
	if len(pieces) == 0 {
		return "", errors.New("no rule matches")
	}
	return strings.Join(pieces, "_"), nil
}

func (m *theirMatch) matches(r theirRequest) (bool, error) {
	switch {
	case m.And != nil:
		return m.And.until(r, false)
	case m.Or != nil:
		return m.Or.until(r, true)
	case m.Not != nil:
		matches, err := m.Not.matches(r)
		return !matches && err == nil, err
	case m.RequestType != nil:
		return slices.Contains(m.RequestType.Types, r.typ), nil
	case m.RequestNode != nil:
		return m.RequestNode.matches(r.node)
	default:
		return true, nil
	}
}

// until gives the first result that is as wanted, else the other one.
func (s *theirMatchSet) until(r theirRequest, wanted bool) (bool, error) {
	for _, m := range s.Rules {
		if matches, err := m.matches(r); err != nil || matches == wanted {
			return matches, err
		}
	}
	return !wanted, nil
}

func (m *theirNodeMatch) matches(node *corev3.Node) (bool, error) {
	switch {
	case m.ID != nil:
		return m.ID.matches(node.GetId())
	case m.Cluster != nil:
		return m.Cluster.matches(node.GetCluster())
	case m.Metadata != nil:
		return m.Metadata.matches(node.GetMetadata())
	}
	if node.GetLocality() == nil {
		return false, errTheirEmpty
	}
	all := true
	for _, field := range []struct {
		match *theirStringMatch
		value string
	}{
		{m.Locality.Region, node.GetLocality().GetRegion()},
		{m.Locality.Zone, node.GetLocality().GetZone()},
		{m.Locality.SubZone, node.GetLocality().GetSubZone()},
	} {
		if field.match == nil {
			continue
		}
		matches, err := field.match.matches(field.value)
		if err != nil {
			return false, err
		}
		all = all && matches
	}
	return all, nil
}

func (m *theirStringMatch) matches(value string) (bool, error) {
	switch {
	case value == "":
		return false, errTheirEmpty
	case m.Exact != nil:
		return value == *m.Exact, nil
	default:
		return regexp.MatchString(*m.Regex, value)
	}
}

func (m *theirMetadataMatch) matches(metadata *structpb.Struct) (bool, error) {
	value, ok := lookUp(metadata, m.Path)
	if !ok {
		return false, nil
	}
	if m.Match.Bool != nil {
		return m.Match.Bool.Value == value.GetBoolValue(), nil
	}
	return m.Match.String.matches(value.GetStringValue())
}

func lookUp(metadata *structpb.Struct, path []theirSegment) (value *structpb.Value, ok bool) {
	for _, segment := range path {
		if value, ok = metadata.GetFields()[segment.Key]; !ok {
			return nil, false
		}
		metadata = value.GetStructValue()
	}
	return value, ok
}

func (p *theirResult) piece(r theirRequest) (string, error) {
	switch {
	case p.And != nil:
		var joined strings.Builder
		for _, result := range p.And.Results {
			piece, err := result.piece(r)
			if err != nil {
				return "", err
			}
			joined.WriteString(piece)
		}
		return joined.String(), nil
	case p.RequestNode != nil:
		return p.RequestNode.piece(r.node)
	case p.ResourceNames != nil:
		if p.ResourceNames.Element >= len(r.names) {
			return "", fmt.Errorf("no name %d", p.ResourceNames.Element)
		}
		return p.ResourceNames.Action.apply(r.names[p.ResourceNames.Element])
	default:
		return *p.String, nil
	}
}

func (f *theirNodeFragment) piece(node *corev3.Node) (string, error) {
	switch {
	case f.ID != nil:
		return f.ID.apply(node.GetId())
	case f.Cluster != nil:
		return f.Cluster.apply(node.GetCluster())
	case f.Metadata != nil:
		// What is not there, and what is no text, is empty.
		value, _ := lookUp(node.GetMetadata(), f.Metadata.Path)
		return f.Metadata.Action.apply(value.GetStringValue())
	}
	var pieces []string
	for _, field := range []struct {
		action *theirAction
		value  string
	}{
		{f.Locality.Region, node.GetLocality().GetRegion()},
		{f.Locality.Zone, node.GetLocality().GetZone()},
		{f.Locality.SubZone, node.GetLocality().GetSubZone()},
	} {
		if field.action == nil {
			continue
		}
		piece, err := field.action.apply(field.value)
		if err != nil {
			return "", err
		}
		pieces = append(pieces, piece)
	}
	return strings.Join(pieces, "|"), nil
}

func (a *theirAction) apply(value string) (string, error) {
	if a.Regex != nil {
		pattern, err := regexp.Compile(a.Regex.Pattern)
		if err != nil {
			return "", err
		}
		value = pattern.ReplaceAllString(value, a.Regex.Replace)
	}
	if value == "" {
		return "", errTheirEmpty
	}
	return value, nil
}

// parseTheirs reads their file, strictly, and gives the constructs that it uses, by
// their names in YAML.
func parseTheirs(text string) (*theirConfig, []string, error) {
	var tree yaml.Node
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return nil, nil, err
	}
	constructs := keysOf(&tree)
	modernize(&tree)
	upgraded, err := yaml.Marshal(&tree)
	if err != nil {
		return nil, nil, err
	}
	c := new(theirConfig)
	decoder := yaml.NewDecoder(strings.NewReader(string(upgraded)))
	decoder.KnownFields(true)
	if err := decoder.Decode(c); err != nil {
		return nil, nil, err
	}
	return c, constructs, checkTheirs(reflect.ValueOf(c))
}

func keysOf(n *yaml.Node) []string {
	var keys []string
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			keys = append(keys, child.Value)
		}
		keys = append(keys, keysOf(child)...)
	}
	return keys
}

// theirFields are the fields of a node as files from before autumn 2020 name them, and
// where they are in files of today.
func theirFields() []struct{ match, action []string } {
	return []struct{ match, action []string }{
		{[]string{"id_match"}, []string{"id_action"}},
		{[]string{"cluster_match"}, []string{"cluster_action"}},
		{[]string{"locality_match", "region"}, []string{"locality_action", "region_action"}},
		{[]string{"locality_match", "zone"}, []string{"locality_action", "zone_action"}},
		{[]string{"locality_match", "sub_zone"}, []string{"locality_action", "subzone_action"}},
	}
}

func theirFieldNames() []string {
	return []string{"NODE_ID", "NODE_CLUSTER", "NODE_LOCALITY_REGION", "NODE_LOCALITY_ZONE", "NODE_LOCALITY_SUBZONE"}
}

// modernize turns "field: NODE_ID" with a match or an action beside it, or field's
// number, into what is written today.
func modernize(n *yaml.Node) {
	for _, child := range n.Content {
		modernize(child)
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 4 || n.Content[0].Value != "field" {
		return
	}
	names := theirFieldNames()
	at := max(slices.Index(names, n.Content[1].Value), slices.Index([]string{"0", "1", "2", "3", "4"}, n.Content[1].Value))
	if at < 0 {
		return
	}
	path := theirFields()[at].match
	inner := &yaml.Node{Kind: yaml.MappingNode, Content: n.Content[2:]}
	if n.Content[2].Value == "action" {
		path, inner = theirFields()[at].action, n.Content[3]
	}
	for _, key := range slices.Backward(path) {
		inner = &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, inner}}
	}
	n.Content = inner.Content
}

// checkTheirs is their validation: of a oneof exactly one field is given, and no list is
// empty.
func checkTheirs(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return checkTheirs(v.Elem())
	case reflect.Slice:
		if v.Len() == 0 {
			return fmt.Errorf("an empty list of %v", v.Type().Elem())
		}
		for i := range v.Len() {
			if err := checkTheirs(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		given := 0
		for field, value := range v.Fields() {
			oneof := field.Tag.Get("oneof")
			if oneof != "" && !value.IsNil() {
				given++
			}
			if err := checkTheirs(value); err != nil {
				return err
			}
		}
		if v.Type().Field(0).Tag.Get("oneof") != "" && given != 1 {
			return fmt.Errorf("%d alternatives of %v are given", given, v.Type())
		}
	default:
	}
	return nil
}

// theirConstructs lists every key that a file of theirs may have.
func theirConstructs() []string {
	found := []string{"field"}
	var visit func(reflect.Type)
	seen := make(map[reflect.Type]bool)
	visit = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || seen[t] {
			return
		}
		seen[t] = true
		for field := range t.Fields() {
			name := field.Tag.Get("yaml")
			if name == "" {
				name = strings.ToLower(field.Name)
			}
			found = append(found, name)
			visit(field.Type)
		}
	}
	visit(reflect.TypeFor[theirConfig]())
	return found
}
