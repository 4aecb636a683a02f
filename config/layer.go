package config

import (
	"encoding"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// layers lays the file, the environment and the flags over the defaults. viper
// decides which of them wins; what it is given are values that were read and
// checked already, under the keys of the schema.
type layers struct {
	decoder
	viper  *viper.Viper
	unread []*Error // variables that set nothing
}

// file adds the keys that the decoder found in the file, with their values in c.
func (l *layers) file(c *Config) error {
	set := make(map[string]any)
	for _, leaf := range leaves(reflect.ValueOf(c), reflect.TypeFor[*Config](), "") {
		if _, given := l.from[leaf.path]; given && leaf.value.IsValid() {
			put(set, leaf.path, leaf.value.Interface())
		}
	}
	return l.viper.MergeConfigMap(set)
}

// environment adds the variables that set a key. Empty ones count as not set,
// which is how container tools pass on what they have no value for.
func (l *layers) environment(environ []string) error {
	byName, names := make(map[string]leaf), commandVariables()
	for _, leaf := range leaves(reflect.Value{}, reflect.TypeFor[*Config](), "") {
		name := EnvName(leaf.path)
		if byName[name] = leaf; leaf.single() {
			names = append(names, name)
		}
	}
	gone := make(map[string]bool)
	for _, path := range removed {
		gone[EnvName(path)] = true
	}
	set := make(map[string]any)
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, EnvPrefix) || text == "" {
			continue
		}
		leaf, ok := byName[name]
		if gone[name] {
			l.errs = append(l.errs, &Error{File: name, Message: removedMessage})
			continue
		}
		if !ok || !leaf.single() {
			l.unknownVariable(name, text, leaf.path, names)
			continue
		}
		if value, ok := l.parse(name, text, leaf); ok {
			put(set, leaf.path, value)
			l.sectionFrom(name, leaf.path)
		}
	}
	return l.viper.MergeConfigMap(set)
}

// sectionFrom notes that a variable began the section of a key, so that what the section lacks
// is told of the variable and not of the file.
func (l *layers) sectionFrom(variable, path string) {
	section := path[:max(0, strings.LastIndexByte(path, '.'))]
	if _, given := l.from[section]; !given && strings.Contains(section, ".") {
		l.from[section] = origin{file: variable}
	}
}

// unknownVariable judges a variable that sets no key; list is the key that it would set if the
// key had one value. A misspelt key is an error, because the relay would run without it. Of
// anything else there is a warning.
func (l *layers) unknownVariable(name, text, list string, known []string) {
	if slices.Contains(commandVariables(), name) || ofKubernetes(name, text) {
		return
	}
	message := "no key and no command has this variable"
	switch meant := nearest(name, known, 2); {
	case list != "":
		message = list + " can be set in the file only"
	case slices.Contains(commandVariables(), meant):
		message = "unknown variable, did you mean " + meant + "?"
	case meant != "":
		l.errs = append(l.errs, &Error{File: name, Message: "unknown variable, did you mean " + meant + "?"})
		return
	}
	l.unread = append(l.unread, &Error{File: name, Message: message})
}

// kubernetesVariable matches the names that Kubernetes makes of a service's name.
var kubernetesVariable = regexp.MustCompile(`_(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$`)

// ofKubernetes reports whether a variable is one that Kubernetes gives every container if there
// is a service with a name like xdsrelay.
func ofKubernetes(name, text string) bool {
	return kubernetesVariable.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(text, "://")
}

// flags adds the flags that were given on the command line.
func (l *layers) flags(flags *pflag.FlagSet) error {
	if flags == nil {
		return nil
	}
	types := make(map[string]leaf)
	for _, leaf := range leaves(reflect.Value{}, reflect.TypeFor[*Config](), "") {
		types[leaf.path] = leaf
	}
	var errs []error
	for _, o := range flagKeys() {
		if flag := flags.Lookup(o.name); flag != nil && flag.Changed {
			if _, ok := l.parse("--"+o.name, flag.Value.String(), types[o.path]); ok {
				errs = append(errs, l.viper.BindPFlag(o.path, flag))
			}
		}
	}
	return errors.Join(errs...)
}

// result gives c with every layer laid over it.
func (l *layers) result(c *Config) error {
	err := l.viper.Unmarshal(c,
		viper.DecodeHook(mapstructure.TextUnmarshallerHookFunc()),
		func(dc *mapstructure.DecoderConfig) { dc.TagName, dc.ErrorUnused = "yaml", true })
	if err != nil {
		return err
	}
	// A section without a key is no key to viper. "tls: {}" must not be taken for
	// a file without tls, which would mean plaintext.
	if _, given := l.from["server.tls"]; given && c.Server.TLS == nil {
		c.Server.TLS = new(ServerTLS)
	}
	if _, given := l.from["admin.tls"]; given && c.Admin.TLS == nil {
		c.Admin.TLS = new(ServerTLS)
	}
	l.emptySPIFFE(c)
	return nil
}

// emptySPIFFE does the same for "spiffe: {}", which is SPIFFE with all defaults.
func (l *layers) emptySPIFFE(c *Config) {
	for at, t := range map[string]*ServerTLS{"server.tls": c.Server.TLS, "admin.tls": c.Admin.TLS} {
		if _, given := l.from[at+".spiffe"]; given && t.SPIFFE == nil {
			t.SPIFFE = new(SPIFFE)
		}
	}
	if _, given := l.from["peers.tls.spiffe"]; given && c.Peers.TLS.SPIFFE == nil {
		c.Peers.TLS.SPIFFE = new(SPIFFE)
	}
}

// parse reads text from outside of the file, source being its name there.
func (l *layers) parse(source, text string, leaf leaf) (value any, ok bool) {
	l.from[leaf.path] = origin{file: source}
	v, err := parseScalar(text, leaf.typ)
	if err != nil {
		l.errs = append(l.errs, l.from.errorAt(leaf.path, "%v", err))
		l.blamed = append(l.blamed, leaf.path)
		return nil, false
	}
	return v, true
}

func parseScalar(text string, t reflect.Type) (any, error) {
	v := reflect.New(t)
	if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v); ok {
		err := u.UnmarshalText([]byte(text))
		return v.Elem().Interface(), err
	}
	switch t.Kind() {
	case reflect.Bool:
		if text != "true" && text != "false" {
			return nil, mismatch("true or false", []byte(text))
		}
		return text == "true", nil
	case reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil {
			return nil, mismatch("an integer", []byte(text))
		}
		return i, nil
	default:
		return text, nil
	}
}

// put sets path in a tree of maps.
func put(tree map[string]any, path string, value any) {
	for {
		key, rest, nested := strings.Cut(path, ".")
		if !nested {
			tree[key] = value
			return
		}
		section, ok := tree[key].(map[string]any)
		if !ok {
			section = make(map[string]any)
			tree[key] = section
		}
		tree, path = section, rest
	}
}

// EnvName gives the environment variable that sets the key at path.
func EnvName(path string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}
