package downstream

import (
	"strings"
	"testing"
)

func TestNackReason_ACK7(t *testing.T) {
	for message, want := range map[string]NackReason{
		"Proto constraint validation failed (ClusterValidationError.ConnectTimeout: value must be greater than 0s)":              NackInvalid,
		"Protobuf message (type envoy.config.cluster.v3.Cluster reason INVALID_ARGUMENT: has unknown fields) has unknown fields": NackField,
		"Didn't find a registered implementation for 'x' with type URL: 'envoy.extensions.filters.http.none.v3.None'":            NackType,
		"route: unknown cluster 'payments'":              NackReference,
		"duplicate cluster payments found":               NackDuplicate,
		"Failed to load certificate chain from <inline>": NackCertificate,
		"cannot bind '0.0.0.0:80': Permission denied":    NackAddress,
		"":                            NackOther,
		strings.Repeat("\xff", 1<<12): NackOther,
		"RouteConfiguration: no valid virtual hosts: it is empty": NackInvalid,
	} {
		if got := nackReason(message); got != want {
			t.Errorf("%.60q: %s, want %s", message, got, want)
		}
	}
}
