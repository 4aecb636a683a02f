package downstream

import (
	"encoding/json"
	"strings"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// takeWarnings has a request that has error_detail, and rejects nothing, count as one without (ACK-1), and gives the
// warnings; "" if there are none. agentgateway accepts a response with warnings so.
func (r *discoveryRequest) takeWarnings() (warned string) {
	if warnings(r.rejection) {
		warned, r.rejection = logs.Excerpt(r.rejection.GetMessage(), logs.ReasonBytes), nil
	}
	return warned
}

// warnings reports whether the detail of a request is a JSON list of warnings, without an error among them.
func warnings(detail *rpcstatus.Status) bool {
	message := detail.GetMessage()
	if !strings.HasPrefix(strings.TrimSpace(message), "[") {
		return false
	}
	var list []struct {
		Key   *string `json:"key"`
		Warn  *string `json:"warn"`
		Error any     `json:"error"`
	}
	if json.Unmarshal([]byte(message), &list) != nil {
		return false
	}
	for _, w := range list {
		if w.Key == nil || w.Warn == nil || w.Error != nil {
			return false
		}
	}
	return len(list) > 0
}
