package config

import (
	"regexp"
	"slices"
)

// removed lists the keys that an earlier version had, as docs/configuration.md wrote their paths.
// A file or a variable that has one is answered with removedMessage.
var removed = []string{
	"peers.listener",
	"peers.tls.server_name",
	"peers.tls.spiffe.server_ids",
	"resolve.max_redirects",
	"upstreams[].nack_acks",
	"upstreams[].redirects",
}

const removedMessage = "removed, see CHANGELOG"

var listIndex = regexp.MustCompile(`\[\d+\]`)

// isRemoved reports whether the key at a path was removed.
func isRemoved(path string) bool {
	return slices.Contains(removed, listIndex.ReplaceAllString(path, "[]"))
}
