package upstream

import (
	"context"
	"fmt"
	"time"
)

// Reach connects to the endpoints in order of priority until one answers, and
// closes the connection again if no session uses it. It is for who wants to know
// whether the control plane is there before anything is wanted from it. The error
// is that none answered before ctx ended or its connect timeout ran out.
func (u *Upstream) Reach(ctx context.Context) error {
	if err := u.enter(); err != nil {
		return err
	}
	defer u.leave()
	for i := range u.cfg.Endpoints {
		ok, err := u.reaches(ctx, i)
		if err != nil {
			return err
		}
		if ok {
			return nil
		}
	}
	return fmt.Errorf("upstream %q: no endpoint answers", u.cfg.Name)
}

func (u *Upstream) reaches(ctx context.Context, endpoint int) (bool, error) {
	c, err := u.acquire(endpoint)
	if err != nil {
		return false, err
	}
	defer u.release(c)
	return c.reach(ctx, u.cfg.ConnectTimeout), nil
}

// reach connects, and reports whether that succeeded before ctx or the timeout ended.
func (c *conn) reach(ctx context.Context, timeout time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.ready(ctx)
}
