package admin

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The page for browsers is static: its script asks for the JSON of the other pages. Templates are left out, since with them
// the linker keeps each exported method of each type.
//
//go:embed ui
var files embed.FS

// uiPath is where the page for browsers is.
const uiPath = "/ui/"

// uiPolicy lets the page load what the relay serves, and nothing else.
const uiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const (
	// eventsEvery is how often followers of the status are told of changes, and how old a status may be that they share.
	eventsEvery = time.Second
	// eventsIdle is how long they are told nothing. A proxy between them and the relay ends what says nothing for long.
	eventsIdle = 15 * time.Second
)

// IsStatic reports whether a request is for a part of the page for browsers. These parts say nothing of the relay.
func IsStatic(req *http.Request) bool {
	return gets(req) && (req.URL.Path == "/ui" || strings.HasPrefix(req.URL.Path, uiPath))
}

// WantsPage reports whether a request for the front page is of a browser.
func WantsPage(req *http.Request) bool {
	return strings.Contains(req.Header.Get("Accept"), "text/html")
}

// handleUI adds the page for browsers to a mux, and the events that it follows.
func (p *Pages) handleUI(mux *http.ServeMux) {
	static, err := fs.Sub(files, "ui")
	if err != nil {
		panic(err) // the folder is in the program
	}
	serve := http.StripPrefix(uiPath, http.FileServerFS(static))
	mux.HandleFunc("GET "+uiPath, func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", uiPolicy)
		h.Set("Cache-Control", "no-cache") // the next version of the relay may have another script
		serve.ServeHTTP(w, req)
	})
	events := &events{state: p.State}
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, req *http.Request) {
		if _, err := parse(req.URL.RawQuery, nil); err != nil {
			Refuse(w, http.StatusBadRequest, err)
			return
		}
		events.serve(req.Context(), w)
	})
}

// events tells its followers the Status whenever it changes, in the form of server-sent events.
type events struct {
	state State

	mu   sync.Mutex // also held while a Status is made: requests that come meanwhile share it
	at   time.Time
	json []byte
}

// latest is the Status, at most eventsEvery old.
func (e *events) latest() ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if e.json != nil && now.Sub(e.at) < eventsEvery {
		return e.json, nil
	}
	b, err := json.Marshal(NewStatus(e.state, now))
	if err == nil {
		e.json, e.at = b, now
	}
	return b, err
}

func (e *events) serve(ctx context.Context, w http.ResponseWriter) {
	last, err := e.latest()
	if err != nil {
		Refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	send := func(text string) bool {
		_, err := w.Write([]byte(text))
		return err == nil && http.NewResponseController(w).Flush() == nil
	}
	if !send("data: " + string(last) + "\n\n") {
		return
	}
	tick := time.NewTicker(eventsEvery)
	defer tick.Stop()
	for said := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := e.latest()
		text := ""
		switch {
		case err != nil:
			return // what was sent cannot be taken back
		case !bytes.Equal(now, last):
			text = "data: " + string(now) + "\n\n"
		case time.Since(said) >= eventsIdle:
			text = ": nothing new\n\n"
		}
		if text == "" {
			continue
		}
		if !send(text) {
			return
		}
		last, said = now, time.Now()
	}
}
