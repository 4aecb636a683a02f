package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/fleet"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// betweenProgress is how often a survey that takes long tells how far it is.
const betweenProgress = 2 * time.Second

// ErrBadNodes says that some of a fleet's nodes could not be read. Each has been told.
var ErrBadNodes = errors.New("could not be read")

// Fleet surveys the recorded nodes at path (see [fleet.Read]) for types, or one name of
// each. Clients are taken to have the identity of peer, unless one is recorded. What cannot be read is told
// on errs, one line each, and left out: then the error wraps [ErrBadNodes], and there is
// a result all the same. So there is none with any other error: that of ctx.
func (e *Explainer) Fleet(ctx context.Context, path string, in io.Reader, errs io.Writer, peer keyer.Peer, typeURLs []string, name *string) (*sharing.Survey, error) {
	survey := sharing.NewSurvey(sharing.Options{Rules: e.config.RuleNames(), Policy: e.rules.Policy(), Unmentioned: e.rules.Unmentioned})
	bad, told := 0, time.Now()
	placements := make([]sharing.Placement, len(typeURLs))
	read := 0
	for node, err := range fleet.Read(path, in) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			bad++
			_, _ = fmt.Fprintln(errs, logs.PrintableLines(err.Error())) // nobody is left to tell where this fails
			continue
		}
		who := peer
		if node.Peer != nil {
			who = *node.Peer
		}
		subject := e.rules.Subject(node.Node, who)
		for i, url := range typeURLs {
			placements[i] = sharing.Place(subject, url, name, e.upstream)
		}
		survey.Add(node.GetId(), placements...)
		if read++; time.Since(told) > betweenProgress {
			told = time.Now()
			_, _ = fmt.Fprintf(errs, "%d nodes so far, in %s\n", read, logs.Printable(node.File))
		}
	}
	if bad > 0 {
		return survey, fmt.Errorf("%s %w", plural(bad, "node"), ErrBadNodes)
	}
	return survey, nil
}
