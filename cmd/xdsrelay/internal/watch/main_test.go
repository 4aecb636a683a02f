package watch

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	time.Local = time.UTC // the golden files show the time of day
	goleak.VerifyTestMain(m)
}
