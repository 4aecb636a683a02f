package config

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// Rules gives the aggregation rules, compiled (AGG-1). The error is an [errors.Join] of
// [*Error], as that of Validate, which finds the same.
func (c *Config) Rules() (*rules.Set, error) {
	policy, err := rules.ParsePolicy(string(c.Aggregation.Otherwise))
	if err != nil {
		return nil, fmt.Errorf("aggregation.otherwise: %w", err)
	}
	r := rules.Config{Otherwise: policy}
	for _, u := range c.Upstreams {
		if u.Default {
			r.Upstream = cmp.Or(r.Upstream, u.Name)
		}
	}
	set, problems := rules.Compile(r)
	errs := make([]error, 0, len(problems))
	for _, p := range problems {
		errs = append(errs, c.from.errorAt(fmt.Sprintf("aggregation.rules[%d].%s", p.Rule, p.Field), "%s", p.Message))
	}
	return set, errors.Join(errs...)
}
