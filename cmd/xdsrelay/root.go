package main

import "github.com/spf13/cobra"

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "xdsrelay",
		Short: "A caching relay for xDS",
		Long: `xdsrelay stands between xDS control planes and a fleet of Envoy and gRPC clients.
For ten thousand clients the control plane serves one stream and one copy of each
subscription. Every update reaches every client at once. When the control plane is
down, the relay serves the fleet from its cache.`,
		Example: `  xdsrelay validate --config xdsrelay.yaml
  xdsrelay serve --config xdsrelay.yaml
  xdsrelay watch 127.0.0.1:18100 --type cds`,
	}
	root.AddCommand(serveCommand(), validateCommand(), explainCommand(), watchCommand(), cacheCommand(),
		heldCommand(), holdCommand(), releaseCommand(), rollbackCommand(), versionCommand())
	return root
}
