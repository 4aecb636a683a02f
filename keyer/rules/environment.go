package rules

import (
	"sync"
	"weak"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// The variables of expressions; beside them stand the short names of resource types,
// which are constants.
const (
	varNode     = "node"
	varType     = "type"
	varName     = "name"
	varPeer     = "peer"
	varUpstream = "upstream"
	varListener = "listener"
)

// Bounds of expressions (OPS-5). An operator does not meet them; they keep what an
// expression can cost before a client's node, which may be megabytes, within reason.
const (
	maxRules           = 1000
	maxParts           = 32
	maxExpressionBytes = 8 << 10
	maxDepth           = 100 // of nested terms
	maxComprehensions  = 2   // nested into each other
	maxRegexProgram    = 10_000
	maxCost            = 100_000 // of one evaluation, in CEL's units: some 10 ms
	maxPrecision       = 100     // digits that format can be told to write
)

// noUser stands for the user and the group of a client that did not come through a unix socket.
const noUser = -1

// identity is the variable peer: who the client is. Its address is not part of it, which says nothing of who it is and changes with every connection.
type identity struct {
	SPIFFE  string   `cel:"spiffe"`
	Domain  string   `cel:"trust_domain"` // of SPIFFE
	Path    string   `cel:"spiffe_path"`  // of SPIFFE
	Subject string   `cel:"subject"`
	DNS     []string `cel:"dns"`
	URIs    []string `cel:"uris"`
	Emails  []string `cel:"emails"`
	IPs     []string `cel:"ips"`
	UID     int64    `cel:"uid"`
	GID     int64    `cel:"gid"`
	Token   *token   `cel:"token"`
}

// token is what a client's bearer token says. Without one everything in it is empty.
type token struct {
	Iss    string         `cel:"iss"`
	Sub    string         `cel:"sub"`
	Aud    []string       `cel:"aud"`
	Claims map[string]any `cel:"claims"`
}

// identityType is the type's name in messages, and in scopes that have peer as a part.
const identityType = "xdsrelay.Peer"

// tokenType is the same for the token in it.
const tokenType = "xdsrelay.Token"

// inUse is the environment, as long as a program or a compiler holds it: rules of all kinds share one. It
// never changes. It takes milliseconds to make, and the memory of hundreds of rules.
var inUse struct {
	mu  sync.Mutex
	env weak.Pointer[cel.Env]
}

// environment is what expressions may use.
func environment() (*cel.Env, error) {
	inUse.mu.Lock()
	defer inUse.mu.Unlock()
	if env := inUse.env.Value(); env != nil {
		return env, nil
	}
	env, err := newEnvironment()
	if err == nil {
		inUse.env = weak.Make(env)
	}
	return env, err
}

// valueOf gives what CEL sees in place of a value of Go.
func valueOf(of any) ref.Val {
	env, err := environment() // which a program holds if a value is asked for
	if err != nil {
		return types.WrapErr(err)
	}
	return env.CELTypeAdapter().NativeToValue(of)
}

func newEnvironment() (*cel.Env, error) {
	registry, err := types.NewRegistry(nodeMessages()...)
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(registry),
		cel.CustomTypeProvider(provider{registry}),
		cel.StdLib(cel.StdLibSubset(withoutTime())),
		cel.Types(cel.NativeTypeFor[token](types.NativeTypeAlias(tokenType), ext.ParseStructTags(true))),
		cel.Types(cel.NativeTypeFor[identity](types.NativeTypeAlias(identityType), ext.ParseStructTags(true))),
		cel.Variable(varNode, cel.ObjectType("envoy.config.core.v3.Node")),
		cel.Variable(varType, cel.StringType),
		cel.Variable(varName, cel.StringType),
		cel.Variable(varPeer, cel.ObjectType(identityType)),
		cel.Variable(varUpstream, cel.StringType),
		cel.Variable(varListener, cel.StringType),
		cel.Types(cel.NativeTypeFor[xdstpName](types.NativeTypeAlias(xdstpType), ext.ParseStructTags(true))),
		cel.Variable(varXDSTP, cel.ObjectType(xdstpType)),
		cel.EnableMacroCallTracking(),
		cel.OptionalTypes(), ext.Strings(ext.StringsMaxPrecision(maxPrecision)), ext.Regex(),
		ext.Encoders(ext.EncodersVersion(1)), ext.Math(ext.MathVersion(2)), ext.Bindings(),
		cel.ParserRecursionLimit(maxDepth),
		cel.RegexProgramSizeLimit(maxRegexProgram),
		cel.ASTValidators(cel.ValidateComprehensionNestingLimit(maxComprehensions)),
	}
	for _, short := range keyer.ShortNames() {
		url, _ := keyer.TypeURL(short)
		options = append(options, cel.Constant(short, cel.StringType, types.String(url)))
	}
	return cel.NewCustomEnv(options...)
}

// nodeMessages gives an empty message of each type that a node can hold. CEL's registry
// finds the types of a message's own file only, and a node has versions and addresses,
// which other files define.
func nodeMessages() (messages []any) {
	node := &corev3.Node{}
	found := []proto.Message{node}
	seen := map[protoreflect.FullName]bool{node.ProtoReflect().Descriptor().FullName(): true}
	for i := 0; i < len(found); i++ {
		fields := found[i].ProtoReflect().Descriptor().Fields()
		for at := range fields.Len() {
			inner := fields.Get(at).Message()
			if inner != nil && inner.IsMapEntry() {
				inner = fields.Get(at).MapValue().Message()
			}
			if inner == nil || seen[inner.FullName()] {
				continue
			}
			seen[inner.FullName()] = true
			if linked, err := protoregistry.GlobalTypes.FindMessageByName(inner.FullName()); err == nil {
				found = append(found, linked.Zero().Interface())
			}
		}
		messages = append(messages, found[i])
	}
	return messages
}

// withoutTime leaves out of the standard library what has to do with time: a node tells
// none, and time zones are files.
func withoutTime() *env.LibrarySubset {
	subset := env.NewLibrarySubset()
	for _, name := range timeFunctions {
		subset.AddExcludedFunctions(env.NewFunction(name))
	}
	return subset
}

var timeFunctions = []string{
	"duration", "timestamp", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear",
	"getHours", "getMilliseconds", "getMinutes", "getMonth", "getSeconds",
}
