package main

import "github.com/spf13/cobra"

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "xdsrelay",
		Short: "A caching relay for xDS",
		Long: `xdsrelay stands between xDS control planes and a fleet of proxies. Ten thousand
clients cost the control plane one stream and one copy of every subscription;
every update reaches every client at once; and when the control plane is gone,
the fleet goes on being served.`,
		Example: `  xdsrelay validate --config xdsrelay.yaml
  xdsrelay serve --config xdsrelay.yaml
  xdsrelay watch 127.0.0.1:18000 --type cds`,
	}
	root.AddCommand(serveCommand(), validateCommand(), explainCommand(), watchCommand(), versionCommand())
	return root
}
