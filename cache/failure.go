package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// Failure is a name that the server reported an error for (ERR-1).
type Failure struct {
	Key   string
	Error wire.ResourceError
}
