package demo_test

import (
	"context"
	"fmt"
	"time"

	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay-demo/internal/demo"
)

// A small demo that nobody watches.
func ExampleRun() {
	options := demo.DefaultOptions()
	options.Clients, options.Duration = 5, time.Second
	summary, err := demo.Run(context.Background(), options)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(summary.Clients.Converged, "clients converged")
	// Output: 6 clients converged
}
