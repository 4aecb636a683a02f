package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
)

// Of an error stay the words that tell an operator what to look at.
func TestBriefly_ABS2_LIM4(t *testing.T) {
	unavailable := func(text string) error { return status.Error(codes.Unavailable, text) }
	for _, tt := range []struct {
		err  error
		want string
	}{
		{unavailable(`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`), "connection refused"},
		{unavailable(`last connection error: connection error: desc = "transport: Error while dialing: dial tcp [::1]:1: connect: no route to host"`), "no route to host"},
		{unavailable(`connection error: desc = "transport: Error while dialing: dial tcp: lookup nowhere: no such host"`), "lookup nowhere: no such host"},
		{unavailable(`connection error: desc = "transport: Error while dialing: dial tcp 10.0.0.1:1: i/o timeout"`), "timeout"},
		{unavailable(`connection error: desc = "transport: authentication handshake failed: tls: failed to verify certificate: x509: certificate signed by unknown authority"`), "TLS: certificate signed by unknown authority"},
		{unavailable(`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`), "TLS: first record does not look like a TLS handshake"},
		{unavailable(`connection error: desc = "error reading server preface: remote error: tls: certificate required"`), "TLS: the server refuses: certificate required"},
		{unavailable(`connection error: desc = "transport: authentication handshake failed: context deadline exceeded"`), "TLS: timeout"},
		{unavailable(`connection error: desc = "error reading server preface: EOF"`), "error reading server preface: EOF"},
		{unavailable(`connection error: desc = "cut`), `"cut`},
		{unavailable("draining"), "UNAVAILABLE: draining"},
		{status.Error(codes.Unauthenticated, "token expired"), "UNAUTHENTICATED: token expired"},
		{status.Error(codes.PermissionDenied, "two\nlines\x00"), "PERMISSION_DENIED: two lines "},
		{status.Error(codes.DeadlineExceeded, "late"), "timeout"},
		{fmt.Errorf("x: %w", errConnectTimeout), "timeout"},
		{unreachableError{context.DeadlineExceeded}, "timeout"},
		{unreachableError{errors.New("dial tcp 127.0.0.1:1: connect: connection refused")}, "connection refused"},
		{
			&url.Error{Op: "Post", URL: "http://127.0.0.1:1/v3/discovery:clusters", Err: unreachableError{errors.New("dial tcp 127.0.0.1:1: connect: connection refused")}},
			"connection refused",
		},
		{unreachableError{errors.New("tls: failed to verify certificate: x509: certificate has expired")}, "TLS: certificate has expired"},
		{&restjson.StatusError{Code: 401, Message: "no"}, "HTTP status 401 (Unauthorized): no"},
		{io.EOF, "the server ended the stream"},
		{errors.New("a\xff"), "a\uFFFD"},
	} {
		if got := briefly(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
	if got := briefly(errors.New(strings.Repeat("é\n", 10_000))); len(got) > maxCauseText || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// What a server has against one scope is told to that scope only.
func TestCause_ACC6(t *testing.T) {
	denied := &ConnectionError{Endpoint: "a:1", Reason: ReasonDenied, Err: status.Error(codes.Unauthenticated, "token of web")}
	if c := denied.Cause(); c.String() != "a:1: UNAUTHENTICATED: token of web" || c.Public().String() != "UNAUTHENTICATED" {
		t.Errorf("%v, in public %v", c, c.Public())
	}
	denied.Err = &restjson.StatusError{Code: 401, Message: "token of web"}
	if c := denied.Cause(); c.Public().Text != "HTTP status 401 (Unauthorized)" {
		t.Errorf("in public %v", c.Public())
	}
	lost := &ConnectionError{Endpoint: "a:1", Reason: ReasonUnavailable, Err: status.Error(codes.Unavailable, "draining")}
	if c := lost.Cause(); c.Public().String() != "UNAVAILABLE: draining" {
		t.Errorf("in public %v", c.Public())
	}
	for text, want := range map[string]string{
		"lookup plane.internal on 10.0.0.2:53: no such host":                   "… on …: no such host",
		"TLS: certificate is valid for plane.internal, not other":              "TLS: certificate is …",
		"UNAVAILABLE: no healthy host at [fd00::1]:443 or fd00::2 or 10.1.2.3": "UNAVAILABLE: no healthy host at … or … or …",
		"UNAUTHENTICATED: no such token as that of [b]":                        "UNAUTHENTICATED: no such token as that of [b]",
		"connection refused":                                    "connection refused",
		"HTTP status 401 (Unauthorized)":                        "HTTP status 401 (Unauthorized)",
		"UNAVAILABLE: proxy plane-0.internal:18000 says: later": "UNAVAILABLE: proxy … says: later",
	} {
		if got := (Cause{Endpoint: "plane.internal:443", Text: text}).Public().String(); got != want {
			t.Errorf("ACC-6: %q in public is %q, want %q", text, got, want)
		}
	}
}

func TestCauses(t *testing.T) {
	c := new(causes)
	note := func(endpoint string, refused bool) {
		c.failed(causeAt(endpoint, status.Error(codes.PermissionDenied, "x"), refused))
	}
	holds := func(want string) {
		t.Helper()
		if got := JoinCauses(c.of([]string{"a", "b"})); got != want {
			t.Errorf("causes %q, want %q", got, want)
		}
	}
	note("a", false)
	note("b", true)
	note("a", false)
	holds("a: PERMISSION_DENIED: x; b: PERMISSION_DENIED: x")
	c.connected("b") // which it can be while it refuses
	c.connected("a")
	c.answered("other")
	holds("b: PERMISSION_DENIED: x")
	c.answered("b")
	holds("")
	var names []string
	for i := range maxCauses + 1 {
		names = append(names, fmt.Sprint(i))
		note(names[i], false)
	}
	if all := c.of(names); len(all) != maxCauses || all[0].Endpoint != "1" {
		t.Errorf("LIM-1 %v", all)
	}
	if left := c.of(names[3:4]); len(left) != 1 || left[0].Endpoint != "3" {
		t.Errorf("causes of addresses that have left are still there: %v", left)
	}
}

// causePorts are endpoints that do not answer, each for a reason of its own.
type causePorts struct{ closed, mute, plain, foreign string }

func newCausePorts(t *testing.T) *causePorts {
	t.Helper()
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	port := func(serve func(net.Conn)) string {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lis.Close() })
		wg.Go(func() {
			for {
				conn, err := lis.Accept()
				if err != nil {
					return
				}
				wg.Go(func() {
					defer conn.Close()
					serve(conn)
				})
			}
		})
		return lis.Addr().String()
	}
	p := &causePorts{
		mute:  port(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
		plain: port(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }),
	}
	config := &tls.Config{Certificates: []tls.Certificate{pki.NewAuthority(t, "another").Server("localhost")}, MinVersion: tls.VersionTLS13}
	p.foreign = port(func(c net.Conn) { _ = tls.Server(c, config).Handshake() })
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.closed = lis.Addr().String()
	_ = lis.Close()
	return p
}

// An attempt to reach a control plane says of each endpoint why it did not answer.
func TestReach_ABS2_LOC6_causes(t *testing.T) {
	for _, api := range []APIType{AggregatedDeltaGRPC, REST} {
		t.Run(string(api), func(t *testing.T) {
			ports := newCausePorts(t)
			up, err := New(Config{
				Name: "plane", APIType: api, ConnectTimeout: 200 * time.Millisecond,
				Endpoints: [][]string{{ports.closed}, {ports.mute}, {ports.plain}, {ports.foreign}},
				TLS:       &credentials.TLSClientConfig{CAFile: pki.NewFolder(t).PutCA("ca.pem", pki.NewAuthority(t, "ours")), ServerName: "localhost"},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer up.Close()
			err = up.Reach(t.Context())
			unanswered, ok := errors.AsType[*UnansweredError](err)
			if !ok || !slices.Equal(unanswered.Causes, up.Causes()) {
				t.Fatalf("%v, and the causes %v", err, up.Causes())
			}
			want := fmt.Sprintf(`upstream "plane": no endpoint answers: %s: connection refused; %s: TLS: timeout; `+
				`%s: TLS: first record does not look like a TLS handshake; %s: TLS: certificate signed by unknown authority`,
				ports.closed, ports.mute, ports.plain, ports.foreign)
			if got := strings.ReplaceAll(err.Error(), ports.mute+": timeout", ports.mute+": TLS: timeout"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := up.Reach(ended); !errors.Is(err, context.Canceled) {
				t.Errorf("after its context ended: %v", err)
			}
		})
	}
}
