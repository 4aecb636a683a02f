package cli

import (
	"io"
	"os"
	"testing"
)

func TestColorful(t *testing.T) {
	if Colorful(io.Discard) || Colorful(os.Stdin) && os.Getenv("NO_COLOR") != "" {
		t.Error("colors where there is no terminal")
	}
}
