package relay

import (
	"fmt"
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// condition draws an expression of access rules.
func (x *leak) condition(depth int) string {
	if depth > 0 {
		switch x.random.IntN(4) {
		case 0:
			return "(" + x.condition(depth-1) + " && " + x.condition(depth-1) + ")"
		case 1:
			return "(" + x.condition(depth-1) + " || " + x.condition(depth-1) + ")"
		case 2:
			return "!(" + x.condition(depth-1) + ")"
		}
	}
	tenant := pick(x.random, x.tenants)
	return fmt.Sprintf(pick(x.random, []string{
		`node.cluster == %q`, `name.contains(%q)`, `xdstp.id.startsWith(%q)`, `(node.cluster == %q && name.contains(node.cluster))`,
		`(%q != "" && name.contains(node.cluster))`, `(name == "*" || name.contains(%q))`, `(type == eds && name != %q)`,
		`(type == cds && %q != node.cluster)`, `(listener == "side" && node.cluster != %q)`, `node.metadata.tenant == %q`,
		`(has(node.metadata.tenant) || node.id.startsWith(%q + "-"))`, `(node.cluster + "-c1" == name && %q != "")`,
		`(name.endsWith("1") || name == %q)`, `(xdstp.authority == "a" && node.cluster != %q)`,
		`peer.spiffe == "spiffe://td/" + %q`, `(peer.spiffe_path == "/" + node.cluster || peer.token.sub == %q)`,
		`(peer.trust_domain == "td" && name.contains(%q))`, `(%q == node.cluster || ("spiffe://td/" + node.cluster) in peer.uris)`,
		`(name.startsWith(peer.token.sub + "-") && node.cluster != %q)`, `("xds" in peer.token.aud && name.contains(%q))`,
		`(type == sds && name.contains(%q))`, `(type == sds && peer.spiffe_path == "/" + %q)`,
		`(xdstp.type.endsWith("Collection") && xdstp.id.contains(%q))`,
	}), tenant)
}

// draw draws access rules.
func (x *leak) draw() (a config.Access) {
	a.Otherwise = pick(x.random, []config.Effect{config.Allow, config.Allow, config.Deny})
	seen := make(map[string]bool)
	for i := range x.random.IntN(5) {
		match := x.condition(2)
		if seen[match] {
			continue // such a rule is refused: it is never reached
		}
		seen[match] = true
		effect := pick(x.random, []config.Effect{config.Allow, config.Allow, config.Deny})
		a.Rules = append(a.Rules, config.AccessRule{
			Name: fmt.Sprintf("rule-%d", i), Match: match, Effect: effect, Secrets: effect == config.Allow && x.random.IntN(2) == 0,
		})
	}
	return a
}

// universe are the names of a type, of which the last of each tenant never exists.
func (x *leak) universe(typeURL string) (names []string) {
	for _, tenant := range x.tenants {
		for i := range 4 {
			last := fmt.Sprint(i)
			if i == 3 {
				last = "ghost1"
			}
			switch typeURL {
			case clusterType:
				names = append(names, tenant+"-c"+last)
			case edsType:
				names = append(names, tenant+"-e"+last)
			case secretType, formerType:
				names = append(names, tenant+"-s"+last)
			case clustersList:
				names = append(names, listNames+tenant+"/l"+last)
			}
		}
	}
	return names
}

// named are the xdstp names of clusters.
func (x *leak) named(kind string) (names []string) {
	for _, tenant := range x.tenants {
		for i := range 3 {
			names = append(names, fmt.Sprintf("%s%s/%s%d", clusterNames, tenant, kind, i))
		}
	}
	return names
}

// act has the control plane change something.
func (x *leak) act() {
	x.number++
	some := func(names []string) string {
		for {
			if n := pick(x.random, names); !strings.Contains(n, "ghost") {
				return n
			}
		}
	}
	gone := x.random.IntN(8) == 0
	var typeURL, name string
	r := testplane.Resource{Version: fmt.Sprint(x.number), Unlisted: true}
	switch x.random.IntN(7) {
	case 0, 1:
		typeURL, name, r.Unlisted = clusterType, some(x.universe(clusterType)), false
		if x.random.IntN(2) == 0 {
			r.Aliases = []string{pick(x.random, x.tenants) + "-alias" + fmt.Sprint(x.random.IntN(2))}
		}
		r.Payload = x.cluster(name, clusterType, name)
	case 2:
		typeURL, name = edsType, some(x.universe(edsType))
		r.Payload = x.pack(&endpointv3.ClusterLoadAssignment{ClusterName: name, NamedEndpoints: map[string]*endpointv3.Endpoint{stampOf(edsType, name): {Hostname: fmt.Sprint(x.number)}}})
	case 3:
		typeURL, name = clusterType, some(x.named("x"))
		r.Payload = x.cluster(name, clusterType, name)
	case 4:
		typeURL, name, r.Unlisted = secretType, some(x.universe(secretType)), x.random.IntN(2) != 0
		r.Payload = x.pack(&tlsv3.Secret{Name: name, Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{
			Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: stampOf(secretType, name) + fmt.Sprint(x.number)}},
		}}})
		if x.random.IntN(2) == 0 {
			typeURL, r.Payload.TypeUrl = formerType, formerType
		}
	default:
		typeURL, name = clustersList, some(x.universe(clustersList))
		list := &clusterv3.ClusterCollection{Entries: &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{
			Locator: &xdscorev3.ResourceLocator{Authority: "a", ResourceType: "envoy.config.cluster.v3.Cluster", Id: strings.TrimPrefix(pick(x.random, x.named("x")), clusterNames)},
		}}}
		if x.random.IntN(3) > 0 {
			list.Entries.ResourceSpecifier = &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{
				Name: leakEntry, Version: fmt.Sprint(x.number), Resource: x.cluster(leakEntry, clustersList, name),
			}}
		}
		r.Payload = x.pack(list)
	}
	change := testplane.Change{Remove: []testplane.Key{{TypeURL: typeURL, Name: name}}}
	if !gone {
		r.TypeURL, r.Name = typeURL, name
		change = testplane.Change{Set: []testplane.Resource{r}}
		for _, other := range x.plane.Contents(typeURL) { // an alias is of the last that has it
			kept := len(other.Aliases)
			other.Aliases = slices.DeleteFunc(slices.Clone(other.Aliases), func(a string) bool { return slices.Contains(r.Aliases, a) })
			if other.Name != name && len(other.Aliases) < kept {
				change.Set = append(change.Set, other)
			}
		}
	}
	x.plane.Apply(change)
}

func (x *leak) pack(m proto.Message) *anypb.Any {
	x.Helper()
	a, err := anypb.New(m)
	if err != nil {
		x.Fatal(err)
	}
	return a
}

// cluster is a cluster with the stamp of its owner.
func (x *leak) cluster(name, ownerType, owner string) *anypb.Any {
	return x.pack(&clusterv3.Cluster{Name: name, AltStatName: stampOf(ownerType, owner) + fmt.Sprint(x.number)})
}

// leakWish is a kind of name that a client may want.
type leakWish int

const (
	wishAll leakWish = iota
	wishCluster
	wishAlias
	wishList
	wishGlob
	wishAlternative
	wishNamed // an xdstp name
	wishSecret
	wishEntry
	wishEndpoints
)

// leakWishes are all kinds.
func leakWishes() (all []leakWish) {
	for w := wishAll; w <= wishEndpoints; w++ {
		all = append(all, w)
	}
	return all
}

// wish draws what a client may want.
func (x *leak) wish(form leakForm) (typeURL, name string) {
	for {
		switch pick(x.random, x.wishes) {
		case wishAll:
			return clusterType, "*"
		case wishCluster:
			return clusterType, pick(x.random, x.universe(clusterType))
		case wishAlias:
			return clusterType, pick(x.random, x.tenants) + "-alias" + fmt.Sprint(x.random.IntN(2))
		case wishList:
			if form.kind == changes || form.kind == states && form.wrapped { // the others see no name of a list
				return clustersList, pick(x.random, x.universe(clustersList))
			}
		case wishGlob:
			return clusterType, clusterNames + pick(x.random, x.tenants) + "/*"
		case wishAlternative:
			return clusterType, pick(x.random, x.named("x")) + "#alt=" + pick(x.random, x.named("x"))
		case wishNamed:
			return clusterType, pick(x.random, x.named("x"))
		case wishSecret:
			typeURL = secretType
			if form.kind != polling && !form.alone && x.random.IntN(2) == 0 { // the others have no service or path for it
				typeURL = formerType
			}
			return typeURL, pick(x.random, append(x.universe(secretType), "*"))
		case wishEntry:
			return clusterType, entryOf(pick(x.random, x.universe(clustersList)), pick(x.random, []string{leakEntry, leakEntry, "other"}))
		case wishEndpoints:
			return edsType, pick(x.random, x.universe(edsType))
		}
	}
}

// leakEntry is the name of the inline entries of lists.
const leakEntry = "inline"

// entryOf is the name by which a client gets an inline entry of a list.
func entryOf(list, entry string) string { return list + "#entry=" + entry }
