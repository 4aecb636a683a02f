package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const good = `upstreams:
  - {name: a, default: true, endpoints: [127.0.0.1:1]}
`

const wrong = `server:
  lisen: x
upstreams:
  - name: a
    default: true
    endpoints: [127.0.0.1]
`

const withFiles = `upstreams:
  - name: a
    default: true
    endpoints: [127.0.0.1:1]
    tls: {ca_file: /does/not/exist.pem}
`

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		args          []string
		code          int
		stdout        string
		stderr        string
	}{
		{"good", good, nil, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18000\n", ""},
		{"good with a flag", good, []string{"--listen=:99"}, 0, "FILE: valid, 1 upstream, listening on :99\n", ""},
		{"wrong", wrong, nil, exitFailure, "", `FILE:2:3: server.lisen: unknown key, did you mean "listen"?
FILE:6:17: upstreams[0].endpoints[0]: expected host:port, got "127.0.0.1"
hint: docs/configuration.md lists every key
`},
		{"a wrong flag", good, []string{"--listen=x"}, exitFailure, "", `--listen: server.listen: expected host:port or :port, got "x"
hint: docs/configuration.md lists every key
`},
		{"files", withFiles, nil, exitFailure, "", `FILE:5:20: upstreams[0].tls.ca_file: reading /does/not/exist.pem: no such file or directory
hint: docs/configuration.md lists every key
`},
		{"without files", withFiles, []string{"--files=false"}, 0, "FILE: valid, 1 upstream, listening on 127.0.0.1:18000\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := write(t, "x.yaml", tt.content)
			want := result{tt.code, strings.ReplaceAll(tt.stdout, "FILE", file), strings.ReplaceAll(tt.stderr, "FILE", file)}
			got := xdsrelay(t, append([]string{"validate", "--config", file}, tt.args...)...)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		code    int
		want    validity
	}{
		"good": {good, 0, validity{Valid: true, Errors: []problem{}}},
		"wrong": {wrong, exitFailure, validity{Errors: []problem{
			{Line: 2, Column: 3, Path: "server.lisen", Message: `unknown key, did you mean "listen"?`},
			{Line: 6, Column: 17, Path: "upstreams[0].endpoints[0]", Message: `expected host:port, got "127.0.0.1"`},
		}}},
		"files": {withFiles, exitFailure, validity{Errors: []problem{
			{Line: 5, Column: 20, Path: "upstreams[0].tls.ca_file", Message: "reading /does/not/exist.pem: no such file or directory"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			file := write(t, "x.yaml", tt.content)
			tt.want.File = file
			for i := range tt.want.Errors {
				tt.want.Errors[i].File = file
			}
			got := xdsrelay(t, "validate", "--config", file, "-o", "json")
			var v validity
			if err := json.Unmarshal([]byte(got.stdout), &v); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, v); diff != "" || got.code != tt.code || got.stderr != "" {
				t.Errorf("exit code %d, standard error %q (-want +got):\n%s", got.code, got.stderr, diff)
			}
		})
	}
}
