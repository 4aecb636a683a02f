package files_test

import (
	"fmt"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

func ExampleParseNode() {
	node, err := files.ParseNode([]byte("id: sidecar-1\nlocality: {zone: a}\n"))
	fmt.Println(node.GetId(), node.GetLocality().GetZone(), err)

	_, err = files.ParseNode([]byte("id: sidecar-1\nlocality: {zome: a}\n"))
	fmt.Println(err)
	// Output:
	// sidecar-1 a <nil>
	// 2:12: unknown field "zome"
}
