package config

import _ "embed"

// SchemaURL is where editors find [JSONSchema]. The first line of each example names it.
const SchemaURL = "https://raw.githubusercontent.com/xdsrelay/xdsrelay/main/config/schema.json"

// schemaJSON is made from the types, the defaults and docs/configuration.md by this package's tests.
//
//go:embed schema.json
var schemaJSON string

// JSONSchema gives the JSON schema of the file, with which editors complete and check keys. It knows the
// keys, their types and what is one of a few words. [Load] knows the rest.
func JSONSchema() string { return schemaJSON }
