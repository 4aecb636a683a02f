package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// query is what a request asks of a page.
type query struct{ url.Values }

// goesOn has the header Link lead to the next page, which is what comes after the last element of this one.
func (q query) goesOn(w http.ResponseWriter, last string) {
	q.Set("after", last)
	w.Header().Set("Link", fmt.Sprintf(`<?%s>; rel="next"`, q.Encode()))
}

// selectors are the parameters of pages about what commands select.
var selectors = []string{"upstream", "scope", "type"}

// page answers requests whose parameters are among known. Any other one is a typing mistake: without a word
// of it the page would show more than was asked for.
func page(answer func(http.ResponseWriter, query) error, known ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		q, err := parse(req.URL.RawQuery, known)
		if err == nil {
			err = answer(w, q)
		}
		if err != nil {
			Refuse(w, http.StatusBadRequest, err)
		}
	}
}

func parse(raw string, known []string) (query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, Wrong("the query cannot be read: %v", err)
	}
	for name := range values {
		if slices.Contains(known, name) {
			continue
		}
		if len(known) == 0 {
			return query{}, Wrong("there is no parameter %q: this page has none", name)
		}
		return query{}, Wrong("there is no parameter %q: this page has %s", name, strings.Join(known, ", "))
	}
	for i, name := range values["type"] {
		if name == "" {
			continue // of all
		}
		if values["type"][i], err = keyer.ParseType(name); err != nil {
			return query{}, Wrong("%v", err)
		}
	}
	return query{values}, nil
}

// typeURL is the type that is asked for.
func (q query) typeURL() string { return q.Get("type") }

// flag is a parameter that is true or false; false if it is left out.
func (q query) flag(name string) (bool, error) {
	if !q.Has(name) {
		return false, nil
	}
	is, err := strconv.ParseBool(q.Get(name))
	if err != nil {
		return false, Wrong("%s: expected true or false", name)
	}
	return is, nil
}

// number is a parameter that is a number above zero; 0 if it is left out.
func (q query) number(name string) (uint64, error) {
	if !q.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 63)
	if err != nil || n == 0 {
		return 0, Wrong("%s: expected a number above zero", name)
	}
	return n, nil
}

// command is a command with these selectors.
func (q query) command() *Command {
	c := &Command{Upstream: q.Get("upstream"), Types: q.Values["type"]}
	if q.Has("scope") {
		c.Scope = new(q.Get("scope"))
	}
	return c
}
