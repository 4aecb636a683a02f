package upstream

import (
	"errors"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

const (
	// minSecret is how long a part of a value is at least that is taken for a secret: shorter
	// ones stand in any text.
	minSecret = 6
	concealed = "(hidden)"
)

// conceal takes the values of metadata out of the message with which a server ends a stream or
// refuses a poll: some servers quote the token that they do not take, and the relay logs and shows the message,
// and sends it to clients (ACC-6, OPS-6).
func conceal(err error, md metadata.MD) error {
	hide := func(text string) string {
		for _, values := range md {
			for _, v := range values {
				for _, part := range append([]string{v}, strings.Fields(v)...) { // "Bearer" and the token
					if len(part) >= minSecret && part != "Bearer" {
						text = strings.ReplaceAll(text, part, concealed)
					}
				}
			}
		}
		return text
	}
	if len(md) == 0 {
		return err
	}
	if refused, ok := errors.AsType[*restjson.StatusError](err); ok {
		if text := hide(refused.Message); text != refused.Message {
			return &restjson.StatusError{Code: refused.Code, Message: text}
		}
		return err
	}
	if st, ok := status.FromError(err); ok {
		if text := hide(st.Message()); text != st.Message() {
			return status.Error(st.Code(), text)
		}
	}
	return err
}
