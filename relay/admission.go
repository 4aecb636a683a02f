package relay

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/relay/load"
)

// admission tells clients what load.Admission decides.
type admission struct {
	*load.Admission

	observer downstream.Observer
}

// Room implements downstream.Admission.
func (a admission) Room() error {
	if err := a.Admission.Room(); err != nil {
		return a.refuse(err)
	}
	return nil
}

// Join implements downstream.Admission.
func (a admission) Join(ctx context.Context, who quota.Client) (downstream.Turn, error) {
	return a.admit(a.Admission.Join(ctx, from(ctx, who)))
}

// Poll implements downstream.Admission.
func (a admission) Poll(ctx context.Context, who quota.Client) (downstream.Turn, error) {
	return a.admit(a.Admission.Poll(ctx, from(ctx, who)))
}

// from is where a stream or a poll comes from.
func from(ctx context.Context, who quota.Client) (from load.From) {
	if who != (quota.Client{}) {
		from.Party = who
	}
	if client := identity.ClientOf(ctx); client != nil {
		from.Connection = client
	}
	return from
}

func (a admission) admit(turn *load.Turn, err error) (downstream.Turn, error) {
	if err != nil {
		return nil, a.refuse(err)
	}
	return turn, nil
}

// refuse gives the status for a client that is refused, and counts it.
func (a admission) refuse(err error) error {
	switch {
	case errors.Is(err, load.ErrMemory):
		a.observer.Limited(downstream.LimitMemory)
		return later("the relay is short of memory and takes on no new clients: try again in some seconds")
	case errors.Is(err, load.ErrLate):
		a.observer.Limited(downstream.LimitAdmission)
		return later("more clients join than the relay can serve in time (limits.join_wait): try again in some seconds, or another replica")
	case errors.Is(err, load.ErrClosed):
		return status.Error(codes.Unavailable, errClosed.Error())
	default:
		return status.FromContextError(err).Err()
	}
}

// A refused client is to try again after retryLeast and at most retrySpread more: those that were refused
// together do not come back together.
const (
	retryLeast  = time.Second
	retrySpread = 4 * time.Second
)

// later gives the status for a client that is to try again.
func later(message string) error {
	s := status.New(codes.Unavailable, message)
	after := retryLeast + rand.N(retrySpread) //nolint:gosec // spreading, not secrecy
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}); err == nil {
		s = detailed
	}
	return s.Err()
}
