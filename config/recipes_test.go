package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// TestRecipes_AGG1 loads the recipes for control planes, and runs the tests in them.
func TestRecipes_AGG1(t *testing.T) {
	files, err := filepath.Glob("../examples/control-planes/*.yaml")
	if err != nil || len(files) < 7 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := config.Load(file, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			passTests(t, c, 1)
			if !strings.Contains(readDocument(t, "../docs/control-planes.md"), "(../examples/control-planes/"+filepath.Base(file)+")") {
				t.Error("docs/control-planes.md does not lead to it")
			}
		})
	}
}
