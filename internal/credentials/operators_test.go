package credentials

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestList_ACC7(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	replace(t, path, "# operators\n\nprometheus read s3cret-of-prometheus\nann\tact s3cret-of-operator-ann\nvm metrics s3cret-of-a-scraper\n")
	log := make(records, 100)
	l, err := OpenOperatorList(path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for token, want := range map[string]Operator{
		"s3cret-of-prometheus": {Name: "prometheus", Role: RoleRead}, "s3cret-of-operator-ann": {Name: "ann", Role: RoleAct},
		"s3cret-of-a-scraper": {Name: "vm", Role: RoleMetrics},
		"":                    {}, "ann": {}, "s3cret-of-operator-an": {}, "# operators": {},
	} {
		if got, ok := l.Find(token); got != want || ok != (want.Name != "") {
			t.Errorf("%q: %+v, %t", token, got, ok)
		}
	}
	replace(t, path, "bob act s3cret")
	log.await(t.Context(), t, "keeping what it said last")
	if _, ok := l.Find("s3cret-of-operator-ann"); !ok {
		t.Error("a file that cannot be used took the tokens away")
	}
	replace(t, path, "bob act s3cret-of-operator-bob")
	log.await(t.Context(), t, "taken up")
	if _, ok := l.Find("s3cret-of-operator-ann"); ok {
		t.Error("a token that was taken out counts")
	}
	defer func() {
		replace(t, path, "# nobody\n")
		log.await(t.Context(), t, "taken up")
		if o, ok := l.Find("s3cret-of-operator-bob"); ok {
			t.Errorf("nobody is on the list, and %s is known", o.Name)
		}
	}()
	if o, ok := l.Find("s3cret-of-operator-bob"); !ok || o.Name != "bob" {
		t.Errorf("%+v, %t", o, ok)
	}
}

func TestCheckList_ACC7(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	for content, want := range map[string]string{
		"":                               "",
		"# nobody\n":                     "",
		"a act s3cret-of-operator-a":     "",
		"a act":                          "line 1: expected NAME, metrics, read or act",
		"\na write s3cret-of-operator-a": "line 2: expected NAME, metrics, read or act",
		"a act s3cret-of-operator-a b":   "line 1: expected NAME",
		"a act s3cret":                   "at least 16 characters",
		"a act s3cret,of,operator,a":     "letters, digits",
		"ä act s3cret-of-operator-a":     "a name of at most 64",
		strings.Repeat("a", 65) + " act s3cret-of-operator-a":     "a name of at most 64",
		"a act s3cret-of-operator-a\nb read s3cret-of-operator-a": "line 2: a has the same token",
		strings.Repeat("#\n", maxListSize):                        "at most 1048576 bytes",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := CheckOperatorList(path)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%.80q: %v, want %s", content, err, want)
		}
	}
	if err := CheckOperatorList(path + ".none"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
