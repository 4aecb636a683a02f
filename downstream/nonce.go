package downstream

import (
	"encoding/binary"
	"hash/maphash"
	"strconv"
)

// nonces are the nonces of one stream's responses: the number of the response, behind a mark.
// A client cannot guess the mark, so an acknowledged response was received.
type nonces struct {
	seed maphash.Seed // of this stream alone
	last uint64       // number of the last response, over all types
}

// markLen is the length of a mark, in bytes of five bits each.
const markLen = 8

const markChars = "abcdefghijklmnopqrstuvwxyz234567"

// of returns the nonce of the response with a number.
func (n *nonces) of(number uint64) string {
	var room [markLen + 20]byte
	b := n.mark(number)
	return string(strconv.AppendUint(append(room[:0], b[:]...), number, 10))
}

// number returns the number of the response with a nonce. It is zero, and not ok, for a nonce of
// another stream and for one that no response had.
func (n *nonces) number(nonce string) (number uint64, ok bool) {
	if len(nonce) <= markLen {
		return 0, false
	}
	number, err := strconv.ParseUint(nonce[markLen:], 10, 64)
	mark := n.mark(number)
	if err != nil || number > n.last || nonce[:markLen] != string(mark[:]) {
		return 0, false
	}
	return number, true
}

func (n *nonces) mark(number uint64) (mark [markLen]byte) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], number)
	h := maphash.Bytes(n.seed, b[:])
	for i := range mark {
		mark[i] = markChars[h&31]
		h >>= 5
	}
	return mark
}
