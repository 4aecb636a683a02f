package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// managementServer is a control plane that has whole resources, and that a test
// changes, kills and brings back. [gocontrolplane.ControlPlane] is one.
type managementServer interface {
	Start(ctx context.Context, address string) error
	Restart(ctx context.Context) error
	Stop() // as a crash does
	Close()
	Addr() string
	UpdateResource(name string, message proto.Message) (version string, err error)
	DeleteResource(typeURL, name string) error
	Stats() gocontrolplane.Stats
}

// foreignPlane is a management server in a process of its own: a program of
// testdata around a library that the tests do not link. It has one snapshot for
// all nodes. A crash loses it, and the process that comes next is given it anew.
type foreignPlane struct {
	t       testing.TB
	command []string
	port    *gocontrolplane.ControlPlane // never serves: it keeps the port while no process does

	process *process // nil: stopped
	state   map[string]map[string]proto.Message
	changes int // made so far; the version of the snapshot

	reading sync.WaitGroup
	replies chan foreignLine // to the lines written, and the first line; closed when the process has ended

	mu      sync.Mutex
	streams map[int64]*gocontrolplane.Stream // open ones
	opened  int
	nacks   int
	is      string // version of the library
}

// foreignLine is a line that the process writes.
type foreignLine struct {
	Version string `json:"version"` // the first line
	Done    bool   `json:"done"`    // a snapshot is set
	Error   string `json:"error"`   // a snapshot could not be set

	Stream  int64  `json:"stream"` // what happened on a stream
	Delta   bool   `json:"delta"`
	Request []byte `json:"request"`
	Closed  bool   `json:"closed"`
}

// newForeignPlane makes a control plane that command and a port start.
func newForeignPlane(t testing.TB, command ...string) *foreignPlane {
	t.Helper()
	return &foreignPlane{
		t: t, command: command, port: gocontrolplane.New(), state: make(map[string]map[string]proto.Message),
		streams: make(map[int64]*gocontrolplane.Stream),
	}
}

// Start implements managementServer. The address is that of a port of 127.0.0.1.
func (p *foreignPlane) Start(ctx context.Context, address string) error {
	if err := p.port.Start(ctx, address); err != nil {
		return err
	}
	p.port.Stop()
	return p.Restart(ctx)
}

// Restart implements managementServer.
func (p *foreignPlane) Restart(context.Context) error {
	if p.process != nil {
		return errors.New("the process runs already")
	}
	_, port, err := net.SplitHostPort(p.Addr())
	if err != nil {
		return err
	}
	run, err := startProcess(nil, append(slices.Clone(p.command), port)...)
	if err != nil {
		return err
	}
	run.logOnFailure(p.t)
	p.process, p.replies = run, make(chan foreignLine, 1)
	p.reading.Go(func() { p.read(run.output, p.replies) })
	hello, err := p.reply()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.is = hello.Version
	p.mu.Unlock()
	return p.push()
}

// read takes what the process writes until it ends.
func (p *foreignPlane) read(lines *json.Decoder, replies chan<- foreignLine) {
	defer close(replies)
	for {
		var line foreignLine
		if err := lines.Decode(&line); err != nil {
			return // the end is what reply tells
		}
		if line.Stream != 0 {
			if err := p.observe(line); err != nil {
				p.t.Errorf("%v: %v", p.command, err)
			}
			continue
		}
		select {
		case replies <- line:
		default: // reply did not wait for the answer before this one
		}
	}
}

// reply waits for the answer to what was written.
func (p *foreignPlane) reply() (foreignLine, error) {
	select {
	case line, ok := <-p.replies:
		switch {
		case !ok:
			return line, fmt.Errorf("%v: the process has ended", p.command)
		case line.Error != "":
			return line, fmt.Errorf("%v: %s", p.command, line.Error)
		}
		return line, nil
	case <-time.After(patience):
		return foreignLine{}, fmt.Errorf("%v: no answer within %v", p.command, patience)
	}
}

// observe keeps what a stream is for.
func (p *foreignPlane) observe(line foreignLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line.Closed {
		delete(p.streams, line.Stream)
		return nil
	}
	stream := p.streams[line.Stream]
	if stream == nil {
		p.opened++
		stream = &gocontrolplane.Stream{ID: int(line.Stream), Delta: line.Delta, Types: make(map[string]gocontrolplane.Subscriptions)}
		p.streams[line.Stream] = stream
	}
	switch {
	case line.Request == nil:
		return nil // the stream's opening
	case line.Delta:
		return p.observeDeltaLocked(stream, line.Request)
	default:
		return p.observeStateLocked(stream, line.Request)
	}
}

func (p *foreignPlane) observeDeltaLocked(stream *gocontrolplane.Stream, request []byte) error {
	r := new(discovery.DeltaDiscoveryRequest)
	if err := proto.Unmarshal(request, r); err != nil {
		return err
	}
	names := namesOf(stream, r.GetTypeUrl())
	for _, n := range r.GetResourceNamesSubscribe() {
		names[n]++
	}
	for _, n := range r.GetResourceNamesUnsubscribe() {
		delete(names, n)
	}
	if r.GetErrorDetail() != nil {
		p.nacks++
	}
	return nil
}

func (p *foreignPlane) observeStateLocked(stream *gocontrolplane.Stream, request []byte) error {
	r := new(discovery.DiscoveryRequest)
	if err := proto.Unmarshal(request, r); err != nil {
		return err
	}
	names := namesOf(stream, r.GetTypeUrl())
	clear(names)
	for _, n := range r.GetResourceNames() {
		names[n] = 1
	}
	if r.GetErrorDetail() != nil {
		p.nacks++
	}
	return nil
}

// namesOf gives what a stream subscribes to, to be changed.
func namesOf(stream *gocontrolplane.Stream, typeURL string) map[string]int {
	of, ok := stream.Types[typeURL]
	if !ok {
		of.Names = make(map[string]int)
		stream.Types[typeURL] = of
	}
	return of.Names
}

// push makes the state the process's snapshot.
func (p *foreignPlane) push() error {
	if p.process == nil {
		return nil
	}
	snapshot := struct {
		Version   string   `json:"version"`
		Resources [][]byte `json:"resources"`
	}{Version: strconv.Itoa(p.changes), Resources: [][]byte{}}
	for _, url := range slices.Sorted(maps.Keys(p.state)) {
		for _, name := range slices.Sorted(maps.Keys(p.state[url])) {
			resource, err := anypb.New(p.state[url][name])
			if err != nil {
				return err
			}
			encoded, err := proto.Marshal(resource)
			if err != nil {
				return err
			}
			snapshot.Resources = append(snapshot.Resources, encoded)
		}
	}
	if err := json.NewEncoder(p.process.input).Encode(snapshot); err != nil {
		return fmt.Errorf("%v: %w", p.command, err)
	}
	_, err := p.reply()
	return err
}

// UpdateResource implements managementServer.
func (p *foreignPlane) UpdateResource(name string, message proto.Message) (version string, err error) {
	url := gocontrolplane.TypeURL(message)
	if p.state[url] == nil {
		p.state[url] = make(map[string]proto.Message)
	}
	p.changes++
	p.state[url][name] = proto.Clone(message)
	return strconv.Itoa(p.changes), p.push()
}

// DeleteResource implements managementServer.
func (p *foreignPlane) DeleteResource(typeURL, name string) error {
	p.changes++
	delete(p.state[typeURL], name)
	return p.push()
}

// Stop implements managementServer: it kills the process.
func (p *foreignPlane) Stop() {
	if p.process == nil {
		return
	}
	p.process.crash()
	p.ended()
}

// Close implements managementServer.
func (p *foreignPlane) Close() {
	if p.process != nil {
		p.process.close()
		p.ended()
	}
	p.port.Close()
}

// ended forgets a process that has ended.
func (p *foreignPlane) ended() {
	p.reading.Wait()
	p.process = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.streams)
}

// Addr implements managementServer.
func (p *foreignPlane) Addr() string { return p.port.Addr() }

// Stats implements managementServer: open streams with what they subscribe to, the
// number of streams opened, and of NACKs.
func (p *foreignPlane) Stats() gocontrolplane.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := gocontrolplane.Stats{Opened: p.opened, Counts: gocontrolplane.Counts{Nacks: p.nacks}}
	for _, id := range slices.Sorted(maps.Keys(p.streams)) {
		stream := *p.streams[id]
		stream.Types = make(map[string]gocontrolplane.Subscriptions, len(stream.Types))
		for url, of := range p.streams[id].Types {
			of.Names = maps.Clone(of.Names)
			stream.Types[url] = of
		}
		stats.Streams = append(stats.Streams, stream)
	}
	return stats
}
