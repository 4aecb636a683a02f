package wire

import "slices"

// The two spellings of the client feature of knowing Resource in state-of-the-world
// responses (RES-13). The protocol's text, C-core and grpc-go have the first; the comments
// of the API have the second.
const (
	FeatureWrapping      = "xds.config.resource-in-sotw"
	FeatureWrappingOther = "xds.config.supports-resource-in-sotw"
)

// WrappingFeatures gives both spellings. A client announces both, since a server may know
// only one.
func WrappingFeatures() []string { return []string{FeatureWrapping, FeatureWrappingOther} }

// AnnouncesWrapping reports whether a node's client features have either spelling.
func AnnouncesWrapping(features []string) bool {
	return slices.Contains(features, FeatureWrapping) || slices.Contains(features, FeatureWrappingOther)
}
