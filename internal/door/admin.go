package door

import "net/http"

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
	d.log.Warn("the admin port refused a request",
		"from", req.RemoteAddr, "operator", operator, "method", req.Method,
		"path", req.URL.Path, "host", req.Host, "reason", string(reason))
}
