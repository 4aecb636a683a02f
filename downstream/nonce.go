package downstream

import (
	"encoding/binary"
	"hash/maphash"
	"strconv"
)

// Nonces are the numbers of a stream's responses, behind a mark that nobody can guess who
// has not read the response: what is acknowledged was received.

// markLen is the length of a mark, in bytes of five bits each.
const markLen = 8

const markChars = "abcdefghijklmnopqrstuvwxyz234567"

// nonceOf gives the nonce of the response with a number.
func (st *stream) nonceOf(number uint64) string {
	var room [markLen + 20]byte
	b := st.markOf(number)
	return string(strconv.AppendUint(append(room[:0], b[:]...), number, 10))
}

// number gives the number of the response with a nonce. It is zero, and not ok, if there is
// none: the nonce is of another stream, or was never given.
func (st *stream) number(nonce string) (number uint64, ok bool) {
	if len(nonce) <= markLen {
		return 0, false
	}
	number, err := strconv.ParseUint(nonce[markLen:], 10, 64)
	mark := st.markOf(number)
	if err != nil || number > st.nonce || nonce[:markLen] != string(mark[:]) {
		return 0, false
	}
	return number, true
}

func (st *stream) markOf(number uint64) (mark [markLen]byte) {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:8], st.id)
	binary.LittleEndian.PutUint64(b[8:], number)
	h := maphash.Bytes(st.server.seed, b[:])
	for i := range mark {
		mark[i] = markChars[h&31]
		h >>= 5
	}
	return mark
}
