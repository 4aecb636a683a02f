package config_test

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/xdsrelay/xdsrelay/config"
)

func ExampleParse() {
	c, err := config.Parse("xdsrelay.yaml", []byte(`
upstreams:
  - name: primary
    default: true
    endpoints: [127.0.0.1:5678]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Upstreams[0].Name, c.Server.Listen, c.Cache.MaxBytes)
	// Output: primary 127.0.0.1:18100 2GiB
}

// Every problem is reported at once, with its place.
func ExampleParse_errors() {
	_, err := config.Parse("xdsrelay.yaml", []byte(`
server:
  lisen: 127.0.0.1:18100
upstreams:
  - name: primary
    default: true
    endpoints: [127.0.0.1]
    settle: 15
`))
	fmt.Println(err)
	// Output:
	// xdsrelay.yaml:3:3: server.lisen: unknown key, did you mean "listen"?
	// xdsrelay.yaml:7:17: upstreams[0].endpoints[0]: expected host:port, got "127.0.0.1"
	// xdsrelay.yaml:8:13: upstreams[0].settle: expected a duration such as 30s, 5ms or 1h30m, got "15", did you mean 15s?
}

// Flags win over the environment, and the environment over the file.
func ExampleLoad() {
	flags := pflag.NewFlagSet("xdsrelay", pflag.ContinueOnError)
	config.AddFlags(flags)
	if err := flags.Parse([]string{"--log-level=debug"}); err != nil {
		fmt.Println(err)
		return
	}
	environ := []string{"XDSRELAY_LOG_LEVEL=warn", "XDSRELAY_LOG_FORMAT=json"}
	c, err := config.Load("../examples/minimal.yaml", flags, environ)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Log.Level, c.Log.Format)
	// Output: debug json
}
