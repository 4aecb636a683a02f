package upstream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/contain"
	"github.com/xdsrelay/xdsrelay/internal/wake"
)

// TestSUR2_AnswersWhileAQuestionIsOpen: a question may ask for what the server has just lost, and has no
// word for. A server that answers something else meanwhile is not silent, even if it is asked for more
// after that. That is a reason for the next question, soon.
func TestSUR2_AnswersWhileAQuestionIsOpen(t *testing.T) {
	for name, tt := range map[string]struct {
		answers, again bool
		found          bool
	}{
		"nothing is answered":                                     {false, false, true},
		"nothing is answered, and more is asked for":              {false, true, true},
		"something is answered":                                   {true, false, false},
		"something is answered, and more is asked for afterwards": {true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bell := wake.New()
				e, s := &exam{timeout: DefaultResponseTimeout}, &sitter{bell: bell, panics: contain.New(nil, nil)}
				defer e.close()
				take := func() (began time.Time) {
					<-bell
					deadline, _, turn := e.take(s)
					if !turn {
						t.Fatal("it is nobody's turn")
					}
					began = time.Now()
					time.Sleep(time.Until(deadline))
					return began
				}
				e.sit(s, time.Now())
				e.doubt(time.Now(), true)
				time.AfterFunc(time.Second, func() {
					if tt.answers {
						e.hear(time.Now())
					}
				})
				const more = 3 * time.Second
				time.AfterFunc(more, func() {
					if tt.again {
						e.doubt(time.Now(), true)
					}
				})
				began := take()
				if found := e.end(s, true, false, 0); found != tt.found {
					t.Errorf("found to be silent: %t", found)
				}
				if !tt.answers || !tt.again {
					return
				}
				take()
				if found := e.end(s, true, false, 0); !found {
					t.Error("not found to be silent, though nothing was answered any more")
				}
				if took := time.Since(began) - more; took > 2*DefaultResponseTimeout {
					t.Errorf("found after %s", took)
				}
			})
		})
	}
}
