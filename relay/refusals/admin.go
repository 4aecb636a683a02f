package refusals

import "net/http"

// AdminReason is why the admin port refuses a request (ACC-7).
type AdminReason string

// The reasons.
const (
	ForeignHost AdminReason = "host"  // it names a host that is not the port's own
	OtherSite   AdminReason = "site"  // a page of another site sends it
	NoToken     AdminReason = "token" // it has no token, or one that is on no list
	OtherRole   AdminReason = "role"  // its token is not for what it wants
)

// AdminReasons lists them.
func AdminReasons() []AdminReason { return []AdminReason{ForeignHost, OtherSite, NoToken, OtherRole} }

// AdminRefused notes a request that the admin port refuses. operator is whose token it has, "" if that
// is not known.
func (l *Log) AdminRefused(req *http.Request, operator string, reason AdminReason) {
	l.observer.AdminRefused(reason)
	l.tell(&Refusal{What: "admin", Address: req.RemoteAddr, Identity: operator, Name: req.Method + " " + req.URL.Path, Reason: string(reason)})
	l.log.Warn("the admin port refused a request",
		"from", req.RemoteAddr, "operator", operator, "method", req.Method,
		"path", req.URL.Path, "host", req.Host, "reason", string(reason))
}
