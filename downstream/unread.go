package downstream

// writeQuota is how much gRPC takes of a stream before it has written it: beyond that
// SendMsg waits for the client to read. It says 64 KiB.
const writeQuota = 60 << 10

// frameHead is what it counts beside each response. It is counted here too, since a client
// may have thousands of tiny ones.
const frameHead = 5

// mayBlock reports whether the next response may have to wait for the client.
func (st *stream) mayBlock() bool { return st.written-st.read >= writeQuota }

// hasRead notes that the client has read all before the response with a nonce. Of that one
// it may have read no more than the nonce, which stands near its beginning.
func (st *stream) hasRead(nonce uint64) {
	before := st.written - uint64(st.last)
	switch {
	case nonce == st.nonce:
		st.read = before
	case nonce >= st.markNonce:
		st.read = st.mark
	default:
		return
	}
	st.markNonce, st.mark = st.nonce, before
}
