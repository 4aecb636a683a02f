package xdsclient

import (
	"cmp"
	"context"
	"sync"
)

// Wildcard is the name that subscribes to everything of a type that the server
// chooses for the node (SUB-1).
const Wildcard = "*"

// Client is an xDS client of any form. Its methods may be called from any
// goroutine, also from the functions in its Options.
type Client struct {
	// immutable after New
	options    Options
	messages   messages
	maxRequest int // bytes of an incremental request (RES-14, RES-17)

	running sync.Mutex // held by Run and Follow

	// guarded by mu
	mu       sync.Mutex
	types    map[string]*typeState
	order    []*typeState // in the order of their first Subscribe
	links    []*link      // with PerType in the order of types, else one
	start    func(*link)  // begins a link of a running client; nil while there is none to begin
	holdAcks bool
	paused   chan struct{} // closed by Resume; nil: not paused
	progress chan struct{} // closed after the next response; nil: nobody waits
}

// New makes a client. It does nothing before Run or Follow.
func New(options Options) *Client {
	options.PollInterval = cmp.Or(options.PollInterval, DefaultPollInterval)
	options.PerType = options.PerType || options.Form == REST
	c := &Client{options: options, messages: incremental{}, maxRequest: maxRequest, types: make(map[string]*typeState)}
	if options.Form != Incremental {
		c.messages = sotw{presents: options.PresentVersion, polls: options.Form == REST}
		if options.ResourceInSotW {
			c.options.Node = announced(options.Node)
		}
	}
	if !options.PerType {
		c.links = []*link{{client: c}}
	}
	return c
}

// Subscribe adds names to what is wanted of a type: resources, xdstp globs, or
// the Wildcard. Without names it is the wildcard in its legacy form, an empty
// first request (SUB-2, SUB-3), and the explicit one where the type has been
// asked for before or the form has no legacy wildcard for it (SUB-4). A name that
// is subscribed already is asked for again (SUB-6).
func (c *Client) Subscribe(typeURL string, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.types[typeURL]
	if t == nil {
		t = c.addLocked(typeURL)
	}
	if len(names) == 0 && (t.requested || t.wanted()) {
		names = []string{Wildcard}
	}
	t.subscribe(names)
	switch l := t.link; {
	case l.stream == nil: // the next one begins with it
	case t.requested:
		l.enqueueLocked(c.messages.change(t, names, nil, c.maxRequest)...)
	default:
		l.beginLocked(t)
	}
}

// addLocked adds a type, and its stream where it has one of its own.
func (c *Client) addLocked(typeURL string) *typeState {
	t := newType(typeURL)
	c.types[typeURL] = t
	c.order = append(c.order, t)
	if !c.options.PerType {
		t.link = c.links[0]
		return t
	}
	t.link = &link{client: c, typeURL: typeURL}
	c.links = append(c.links, t.link)
	if c.start != nil {
		c.start(t.link)
	}
	return t
}

// Unsubscribe takes names back; names that were not subscribed are sent and
// change nothing (SUB-7). What nothing else covers is no longer held, and no
// Change tells of it.
func (c *Client) Unsubscribe(typeURL string, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.types[typeURL]
	if t == nil || len(names) == 0 {
		return
	}
	t.unsubscribe(names)
	if l := t.link; l.stream != nil && t.requested {
		l.enqueueLocked(c.messages.change(t, nil, names, c.maxRequest)...)
	}
}

// HoldAcks makes the client hold its answers back, as a slow client does, or
// sends those held back and goes on answering at once. Responses are applied
// either way.
func (c *Client) HoldAcks(hold bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdAcks = hold
	if hold {
		return
	}
	for _, l := range c.links {
		for _, a := range l.answers {
			l.answerLocked(a)
		}
		l.answers = nil
	}
}

// Pause makes the client stop reading: no response is taken up after the one at
// hand until Resume, and once the flow-control window is full the server cannot
// send more.
func (c *Client) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused == nil {
		c.paused = make(chan struct{})
	}
}

// Resume ends a Pause.
func (c *Client) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused != nil {
		close(c.paused)
		c.paused = nil
	}
}

// Wait returns nil as soon as cond holds, which it looks at now and after every
// response that was applied, in the caller's goroutine. It returns ctx's error
// if that ends first.
func (c *Client) Wait(ctx context.Context, cond func(*Client) bool) error {
	for {
		c.mu.Lock()
		if c.progress == nil {
			c.progress = make(chan struct{})
		}
		progress := c.progress
		c.mu.Unlock()
		if cond(c) {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Versions gives name and version of everything held of a type.
func (c *Client) Versions(typeURL string) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.types[typeURL]; t != nil {
		return t.versions()
	}
	return nil
}

// Get gives what is held under a name, false if nothing is.
func (c *Client) Get(typeURL, name string) (Held, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.types[typeURL]
	if t == nil {
		return Held{}, false
	}
	h, ok := t.held[name]
	return h, ok
}

// Len is the number of resources held of a type.
func (c *Client) Len(typeURL string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.types[typeURL]; t != nil {
		return len(t.held)
	}
	return 0
}

// Unanswered gives the type URLs, in the order of their first Subscribe, of
// which the server has yet to say something: of each name that is subscribed,
// or anything at all where the wildcard is. A large collection comes in several
// responses, of which this waits for the first.
func (c *Client) Unanswered() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var urls []string
	for _, t := range c.order {
		if !t.complete() {
			urls = append(urls, t.url)
		}
	}
	return urls
}
