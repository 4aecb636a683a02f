package cache

import (
	"testing"
	"time"
)

// SetTimes replaces the times that there are, and adds and removes none (RES-14).
func TestSetTimes_RES14(t *testing.T) {
	s := New(Limits{}, nil).Open(Source{Quiet: time.Second, ResumeQuiet: time.Minute})
	s.Session().SetTimes(&Source{Quiet: 2 * time.Second, ResumeQuiet: 2 * time.Minute, Absent: time.Hour})
	if s.source.Quiet != 2*time.Second || s.source.ResumeQuiet != 2*time.Minute || s.source.Absent != 0 {
		t.Errorf("times %v, %v and %v", s.source.Quiet, s.source.ResumeQuiet, s.source.Absent)
	}
	s.Session().SetTimes(&Source{})
	if s.source.Quiet != 2*time.Second || s.source.ResumeQuiet != 2*time.Minute {
		t.Errorf("times %v and %v were taken away", s.source.Quiet, s.source.ResumeQuiet)
	}
}
