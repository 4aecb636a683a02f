package credentials_test

import (
	"fmt"
	"log"

	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
)

// A client without files of its own trusts the system's roots.
func ExampleNewTLSClient() {
	files, err := credentials.NewTLSClient(credentials.TLSClientConfig{
		ServerName: "control-plane.example",
		Report: func(err error) {
			if err != nil {
				log.Print(err)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer files.Close()

	conn, err := grpc.NewClient("192.0.2.1:18100", grpc.WithTransportCredentials(files.Credentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	config, err := files.Config()
	fmt.Println(config.ServerName, err)
	// Output: control-plane.example <nil>
}
