// Package yamljson gives the JSON that YAML stands for, and knows where in the YAML
// each line of it comes from: what a parser of JSON, such as protojson, says is wrong in
// a line of the JSON is wrong at a line and column of the file.
//
// Errors hold nothing of the file's contents, which may be secret (OPS-6).
package yamljson
