package adminclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type page struct{ Got string }

func TestEach_GATE4(t *testing.T) {
	relay := func(code int, answer string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				t.Error(err)
			}
			w.WriteHeader(code)
			said := req.Method + " " + req.URL.Path + " " + req.Header.Get("Content-Type") + " " + string(body)
			_, _ = io.WriteString(w, strings.ReplaceAll(answer, "GOT", said))
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	addresses := []string{
		relay(http.StatusOK, `{"got": "GOT"}`), relay(http.StatusBadRequest, `{"error": "no such thing"}`),
		relay(http.StatusNotFound, "404 page not found\n"), gone.Addr().String(), relay(http.StatusOK, "<html>"),
	}
	answers := Post[page](t.Context(), addresses, "/hold", []byte("[1]"))
	if a := answers[0]; a.Err != nil || a.Value.Got != "POST /hold application/json [1]" || a.Address != addresses[0] {
		t.Errorf("%+v", a)
	}
	for i, want := range map[int]string{1: "no such thing", 2: "404 page not found"} {
		if refused, ok := errors.AsType[*RefusedError](answers[i].Err); !ok || refused.Reason != want {
			t.Errorf("%+v", answers[i])
		}
	}
	if _, ok := errors.AsType[*UnreachableError](answers[3].Err); !ok {
		t.Errorf("%+v", answers[3])
	}
	if err := answers[4].Err; err == nil || !strings.Contains(err.Error(), "admin port") {
		t.Errorf("%+v", answers[4])
	}
	if a := Get[page](t.Context(), addresses[:1], "/held")[0]; a.Err != nil || a.Value.Got != "GET /held  " {
		t.Errorf("%+v", a)
	}
}

func TestAddresses_GATE4(t *testing.T) {
	got, err := Addresses(context.Background(), []string{"b:1", " a:1", "b:1", "dns:127.0.0.1:7"}, net.DefaultResolver)
	if want := []string{"127.0.0.1:7", "a:1", "b:1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Addresses(context.Background(), []string{"b"}, net.DefaultResolver); err == nil {
		t.Error("a host without a port passes")
	}
}
