package filesource_test

import (
	"context"
	"fmt"
	"log"
	"sync"

	"github.com/xdsrelay/xdsrelay/upstream/filesource"
)

// A source is run by its owner and read by any number of others.
func ExampleSource() {
	source, err := filesource.New(filesource.Config{
		Path: "../../examples/resources",
		Report: func(file string, err error) {
			log.Print(file, ": ", err) // err is nil when it is over
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = source.Run(ctx) })
	defer wg.Wait()
	defer stop()

	changed, cancel := source.Subscribe()
	defer cancel()
	for source.Snapshot().Number == 0 {
		<-changed
	}
	clusters := source.Snapshot().States["type.googleapis.com/envoy.config.cluster.v3.Cluster"]
	for _, r := range clusters.Resources {
		fmt.Println(r.Name, "in version", clusters.VersionInfo)
	}
	// Output: shop in version 1
}
