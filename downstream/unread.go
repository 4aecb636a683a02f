package downstream

// writeQuota is how many bytes of a stream gRPC takes before it has written them. Beyond that
// SendMsg waits for the client to read. gRPC's quota is 64 KiB.
const writeQuota = 60 << 10

// frameHead is the number of bytes that gRPC adds to each response. It matters: a client may have
// thousands of tiny responses.
const frameHead = 5

// unread counts the bytes of a stream's responses: all, those that the client has certainly
// read, and those that it has read once it acknowledges the response with markNonce.
type unread struct {
	written, read, mark uint64
	markNonce           uint64
	last                uint32 // bytes of the last response
}

// mayBlock reports whether the next response may have to wait for the client.
func (u *unread) mayBlock() bool { return u.written-u.read >= writeQuota }

// sent counts a response.
func (u *unread) sent(bytes int) {
	u.last = uint32(frameHead + bytes)
	u.written += uint64(u.last)
}

// acknowledged notes that the client has read everything before the response with a nonce. Of
// that response it may have read no more than the nonce, which stands near the beginning. last
// is the nonce of the last response.
func (u *unread) acknowledged(nonce, last uint64) {
	before := u.written - uint64(u.last)
	switch {
	case nonce == last:
		u.read = before
	case nonce >= u.markNonce:
		u.read = u.mark
	default:
		return
	}
	u.markNonce, u.mark = last, before
}
