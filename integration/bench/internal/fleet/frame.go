package fleet

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
)

// Sizes of HTTP/2's frames, RFC 9113 section 4.
const (
	frameHead    = 9
	maxFrame     = 16 << 10 // what may be sent without having asked
	firstWindow  = 64<<10 - 1
	padded       = http2.FlagDataPadded
	hasPriority  = http2.FlagHeadersPriority
	messageHead  = 5 // gRPC's: compressed or not, and the length
	wholeHeaders = http2.FlagHeadersEndHeaders
)

// wideWindow is how much a server may send before it is given more, on a stream and on
// a connection: enough never to be what it waits for.
const wideWindow = 64 << 20

// keepCap is the size up to which memory is kept that is not used.
const keepCap = 4 << 10

// frame is one frame. The payload lies in the memory that it was read into.
type frame struct {
	kind    http2.FrameType
	flags   http2.Flags
	stream  uint32
	payload []byte
}

var (
	errPadding    = errors.New("a frame with more padding than there is room for")
	errLargeFrame = errors.New("a frame that is larger than allowed")
)

// cutFrame takes the first frame off b; ok says that it is there as a whole.
func cutFrame(b []byte) (f frame, rest []byte, ok bool, err error) {
	if len(b) < frameHead {
		return frame{}, b, false, nil
	}
	size := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	if size > maxFrame {
		return frame{}, b, false, fmt.Errorf("%w: %d bytes", errLargeFrame, size)
	}
	if len(b) < frameHead+size {
		return frame{}, b, false, nil
	}
	f = frame{
		kind: http2.FrameType(b[3]), flags: http2.Flags(b[4]),
		stream:  binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
		payload: b[frameHead : frameHead+size],
	}
	return f, b[frameHead+size:], true, nil
}

// body gives the payload without padding and priority, of DATA and HEADERS.
func (f *frame) body() ([]byte, error) {
	b, pad := f.payload, 0
	if f.flags.Has(padded) { // the same bit for both
		if len(b) == 0 {
			return nil, errPadding
		}
		pad, b = int(b[0]), b[1:]
	}
	if f.kind == http2.FrameHeaders && f.flags.Has(hasPriority) {
		if len(b) < 5 {
			return nil, errPadding
		}
		b = b[5:]
	}
	if pad > len(b) {
		return nil, errPadding
	}
	return b[:len(b)-pad], nil
}

// appendFrameHead begins a frame with a payload of size bytes.
func appendFrameHead(b []byte, kind http2.FrameType, flags http2.Flags, stream uint32, size int) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(b, stream)
}

// appendWindowUpdate allows n more bytes, on a stream or (0) on the connection.
func appendWindowUpdate(b []byte, stream uint32, n int) []byte {
	b = appendFrameHead(b, http2.FrameWindowUpdate, 0, stream, 4)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// appendPreface appends what a connection begins with: a table of no size for
// headers, so that each block of them can be read without those before it, and
// windows, which are larger than the first ones.
func appendPreface(b []byte, window int) []byte {
	settings := []http2.Setting{
		{ID: http2.SettingHeaderTableSize, Val: 0},
		{ID: http2.SettingEnablePush, Val: 0},
		{ID: http2.SettingInitialWindowSize, Val: uint32(window)},
	}
	b = append(b, http2.ClientPreface...)
	b = appendFrameHead(b, http2.FrameSettings, 0, 0, 6*len(settings))
	for _, s := range settings {
		b = binary.BigEndian.AppendUint16(b, uint16(s.ID))
		b = binary.BigEndian.AppendUint32(b, s.Val)
	}
	return appendWindowUpdate(b, 0, window-firstWindow)
}
