package config

import "github.com/spf13/pflag"

// flagKey is a flag and the key that it sets.
type flagKey struct{ name, path, value, usage string }

// flagKeys lists the flags: keys that differ between two replicas or between two runs
// on one machine. All other keys are in the file or the environment.
func flagKeys() []flagKey {
	d := Default()
	return []flagKey{
		{"listen", "server.listen", d.Server.Listen, "`host:port` of the xDS server"},
		{"admin-listen", "admin.listen", d.Admin.Listen, "`host:port` of the admin server"},
		{"node-id", "node.id", d.Node.ID, "`id` of the relay's own node"},
		{"node-cluster", "node.cluster", d.Node.Cluster, "`cluster` of the relay's own node"},
		{"log-level", "log.level", string(d.Log.Level), "lowest `level` of the log: debug, info, warn or error"},
		{"log-format", "log.format", string(d.Log.Format), "`format` of the log: text or json"},
	}
}

// AddFlags defines the flags that override keys of the file. [Load] takes the parsed set
// and reads the given flags.
func AddFlags(fs *pflag.FlagSet) {
	for _, f := range flagKeys() {
		fs.String(f.name, f.value, f.usage)
	}
}
