package door

import (
	"context"
	"net/http"

	"github.com/xdsrelay/xdsrelay/internal/excerpt"
)

// AdminReason is why the admin port refuses a request (ACC-7).
type AdminReason string

// The reasons.
const (
	ForeignHost AdminReason = "host"  // it names a host that is not the port's own
	NoToken     AdminReason = "token" // it has no token, or one that is on no list
	ReadOnly    AdminReason = "role"  // its token is for looking only
)

// AdminReasons lists them.
func AdminReasons() []AdminReason { return []AdminReason{ForeignHost, NoToken, ReadOnly} }

// AdminRefused notes a request that the admin port refuses. operator is whose token it has, "" if that
// is not known.
func (d *Door) AdminRefused(req *http.Request, operator string, reason AdminReason) {
	d.observer.AdminRefused(reason)
	d.log.Log(context.Background(), d.admin.level(), "the admin port refused a request",
		"from", excerpt.Head(req.RemoteAddr, maxShown), "operator", operator, "method", excerpt.Head(req.Method, maxShown),
		"path", excerpt.Head(req.URL.Path, maxShown), "host", excerpt.Head(req.Host, maxShown), "reason", string(reason))
}
