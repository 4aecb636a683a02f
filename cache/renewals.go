package cache

import "time"

// renewals is when a type subscription is renewed, in the state of the world, and what
// cannot be renewed.
type renewals struct {
	next   time.Time // when the client may be renewed again (TTL-1)
	lapsed []lapsed  // of the present pass
}

// lapsed is a resource that was not kept (TTL-5), and that a client which can do TTL has
// dropped by itself: its heartbeat was not sent before the TTL that the client was told ran
// out. A heartbeat does not bring the content back (TTL-3), and the relay has no content to
// send. It asks the server again, as for a subscription that comes later.
type lapsed struct {
	sub    *nameSub // the client subscribes to it by name; or
	cursor *cursor  // it is a member
	entry  *entry
}
