package fleet_test

import (
	"fmt"
	"strings"

	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/fleet"
)

func ExampleRead() {
	recorded := strings.NewReader("id: a\n---\nidd: b\n---\nid: c\n")
	for node, err := range fleet.Read(fleet.Stdin, recorded) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(node.Line, node.GetId())
	}
	// Output:
	// 1 a
	// standard input:3:1: unknown field "idd"
	// 5 c
}
