package delivery

import (
	"testing"
	"testing/synctest"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A member stands in for a name that is not answered. When the name is answered with the same version the client is
// sent nothing, unless the version says too little of what the client has (RES-11, GLOB-5).
func TestStoodIn_RES11_GLOB5(t *testing.T) {
	for _, tc := range []struct {
		name   string
		form   Form
		named  string
		member []string
		says   string // of the name
		want   []string
	}{
		{"the same version", Form{}, nameQ, []string{"+" + nameQ + "@1"}, "+" + nameQ + "@1", nil},
		{"another version", Form{}, nameQ, []string{"+" + nameQ + "@1"}, "+" + nameQ + "@2", []string{"CDS +" + nameQ + "@2"}},
		{"NAME-4 in another spelling", Form{}, nameQ2, []string{"+" + nameQ + "@1"}, "+" + nameQ + "@1", []string{"CDS +" + nameQ2 + "@1"}},
		{"ACK-4 a version that stood for something else", Form{}, nameQ, []string{"+" + nameQ + "@1:x", "+" + nameQ + "@1:y"}, "+" + nameQ + "@1:z", []string{"CDS +" + nameQ + "@1"}},
		{"TTL-1 with a TTL, which the client is told", timed, nameQ, []string{"+" + nameQ + "@1~1h"}, "+" + nameQ + "@1~1h", []string{"CDS +" + nameQ + "@1~1h0m0s"}},
		{"TTL-1 with a TTL, which the client is not told", Form{}, nameQ, []string{"+" + nameQ + "@1~1h"}, "+" + nameQ + "@1~1h", nil},
		{"TTL-1 without a TTL", timed, nameQ, []string{"+" + nameQ + "@1"}, "+" + nameQ + "@1", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				c := b.joinAs(tc.form)
				c.sub(cds, "*", tc.named)
				b.connect(0)
				b.connect(1)
				for _, says := range tc.member {
					b.says(cds, says)
				}
				if got := c.collect(); len(got) != 1 {
					t.Fatalf("the member is sent in %q", got)
				}
				b.saysOn(1, cds, tc.says)
				b.expect(c.collect(), tc.want...)
				b.expect(c.collect())
			})
		})
	}
}
