package filesource

import (
	"path/filepath"
	"slices"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/files"
	// Whatever is written out as JSON, YAML or text can only be read with its type
	// at hand.
	_ "github.com/xdsrelay/xdsrelay/internal/xds/apitypes"
)

// formats are the forms of a file, each by the endings of its name. limit bounds
// what a decoder may make of the data.
var formats = []struct {
	endings []string
	decode  func(data []byte, limit int64) (*discoveryv3.DiscoveryResponse, *Error)
}{
	{[]string{".json"}, decodeJSON},
	{[]string{".yaml", ".yml"}, decodeYAML},
	{[]string{".pb", ".bin"}, decodeBinary},
	{[]string{".textproto", ".txtpb", ".pbtxt", ".pb_text"}, decodeText},
}

// formatOf gives the index in formats of a file by its name, -1 if the ending is
// none of a format.
func formatOf(name string) int {
	for i, f := range formats {
		if slices.Contains(f.endings, strings.ToLower(filepath.Ext(name))) {
			return i
		}
	}
	return -1
}

// endings lists those of all formats for a message.
func endings() string {
	var all []string
	for _, f := range formats {
		all = append(all, f.endings...)
	}
	return strings.Join(all, ", ")
}

func decodeJSON(data []byte, _ int64) (*discoveryv3.DiscoveryResponse, *Error) {
	r := new(discoveryv3.DiscoveryResponse)
	if err := protojson.Unmarshal(data, r); err != nil {
		return nil, parserError(err)
	}
	return r, nil
}

// decodeYAML reads the JSON that the YAML stands for, and gives errors the place
// in the YAML.
func decodeYAML(data []byte, limit int64) (*discoveryv3.DiscoveryResponse, *Error) {
	text, places, invalid := files.YAMLToJSON(data, limit)
	if invalid != nil {
		return nil, &Error{Line: invalid.Line, Column: invalid.Column, Message: invalid.Message}
	}
	r, bad := decodeJSON(text, limit)
	if bad != nil {
		bad.Line, bad.Column = places.Of(bad.Line)
		return nil, bad
	}
	return r, nil
}

func decodeText(data []byte, _ int64) (*discoveryv3.DiscoveryResponse, *Error) {
	r := new(discoveryv3.DiscoveryResponse)
	if err := prototext.Unmarshal(data, r); err != nil {
		return nil, parserError(err)
	}
	return r, nil
}

// decodeBinary leaves payloads as they are, those of unknown types included (VAR-8).
func decodeBinary(data []byte, _ int64) (*discoveryv3.DiscoveryResponse, *Error) {
	r := new(discoveryv3.DiscoveryResponse)
	if err := proto.Unmarshal(data, r); err != nil {
		return nil, errorf("is no binary %s, or not all of one", r.ProtoReflect().Descriptor().FullName())
	}
	return r, nil
}
