package plane

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cutting is what Cut began.
type cutting struct {
	left     int // responses until the plane breaks off
	refuse   time.Duration
	refusing bool
}

var (
	errEnded = status.Error(codes.Unavailable, "the test ended the stream")
	errCut   = status.Error(codes.Unavailable, "the test cut the plane off")
)

// Cut has the plane send so many more responses, all streams and polls counted together, and
// then break off: its streams end with UNAVAILABLE behind what they were sent, and what was to
// follow is lost. New streams and polls are refused for a time. A later Cut takes the place of
// this one.
func (p *Plane) Cut(after int, refuse time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = &cutting{left: after, refuse: refuse}
	if after == 0 {
		p.breakOffLocked()
	}
}

// Uncut ends what Cut began.
func (p *Plane) Uncut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = nil
}

func (p *Plane) breakOffLocked() {
	c := p.cut
	c.refusing = true
	for st := range p.streams {
		st.out.put(nil)
	}
	time.AfterFunc(c.refuse, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cut == c {
			p.cut = nil
		}
	})
}

func (p *Plane) refusesLocked() bool { return p.cut != nil && p.cut.refusing }

func (p *Plane) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refusesLocked()
}

// sentLocked notes that the plane sent a response.
func (p *Plane) sentLocked(r Response) {
	p.responses = append(p.responses, r.now())
	if p.cut == nil {
		return
	}
	if p.cut.left--; p.cut.left == 0 {
		p.breakOffLocked()
	}
}
