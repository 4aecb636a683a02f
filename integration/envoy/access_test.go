package envoy

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

func accessScenarios() []scenario {
	of := func(name string, forms []form, is string) scenario {
		return scenario{
			name: name, proves: "ACC-1 ACC-2 ACC-4", forms: forms, behaviour: plane.GoControlPlane(), fetch: -1,
			relay: func(c *config.Config) { c.Access.Rules = []config.AccessRule{allow(is, "given")} },
			play:  func(w *world) { secretDenied(w, is) },
		}
	}
	certificates := of("a secret that the Envoy may not have, with mTLS", streamForms(), fmt.Sprintf("peer.spiffe == %q", envoyID))
	certificates.mutual = true
	user := of("a secret that the Envoy may not have, over a unix socket", everyForm,
		fmt.Sprintf(`listener == "local" && peer.uid == %d && peer.gid == %d`, os.Getuid(), os.Getgid()))
	user.pipe = true
	return []scenario{certificates, user}
}

// streamForms are those in which the Envoy has streams.
func streamForms() []form {
	return []form{deltaADS, stateADS, deltaPerType, statePerType, deltaOnState, stateOnDelta}
}

// TestAccess has Envoys that the relay knows by their certificates, or by their users, ask for secrets
// that they may have and for others. An Envoy that is directly at a control plane is not given the
// others by that.
func TestAccess_ACC1_ACC2_ACC4(t *testing.T) { playAll(t, accessScenarios()) }

// allow is a rule for a secret and for those of whom something is true.
func allow(is, secret string) config.AccessRule {
	return config.AccessRule{Name: secret, Match: fmt.Sprintf("%s && type == sds && name == %q", is, secret), Effect: config.Allow, Secrets: true}
}

// secretDenied plays with two listeners, each with a certificate that is a secret. The Envoy gets one
// of them. Its stream goes on, and the other listener serves nobody until its secret may be had. It
// warms if nothing is said of the secret. Where the relay says that there is none (ACC-2), to
// incremental streams and polls, the Envoy takes connections without a certificate, and ends them.
func secretDenied(w *world, is string) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(envoyproc.Static("one", a), w.certificate("given", "given.test"), w.encrypted("open", "one", "given"))
	withheld := w.certificate("denied", "denied.test")
	if w.side == relayed {
		w.plane.Set(withheld)
	}
	e := w.envoy("access")
	w.need(soon, "the listener with the secret is live", w.presents(e, "open", "given.test"))

	// An Envoy that starts with a listener that waits for ever never serves: it comes now.
	w.plane.Set(
		w.encrypted("shut", "one", "denied"), w.certificate("given", "renewed.test"),
		envoyproc.Static("two", b), w.listener("later", "routes"), route("routes", "two"),
	)
	w.within(prompt, "the changed secret is in use", w.presents(e, "open", "renewed.test"))
	w.within(prompt, "a listener that comes later is live", w.answers(e, "later", "b"))
	live := func() bool {
		_, is := e.Listeners()["shut"]
		return is
	}
	w.within(prompt, "the Envoy has the listener without its secret", func() bool {
		return live() || e.Stat("listener_manager.total_listeners_warming") == 1
	})
	w.stays(time.Second, "the listener without its secret serves nobody", func() bool { return !w.secures(e, "shut") })
	if told := w.side == relayed && (w.form.envoy.Delta || w.form.envoy.REST); live() != told {
		w.faultf("the listener without its secret is live: %t", live())
	}
	w.atOnce("the listener with the secret stays", w.presents(e, "open", "renewed.test"))
	if w.side == relayed && !w.form.envoy.PerType && !w.form.envoy.REST {
		if n := w.relays[0].metric("xdsrelay_downstream_streams_opened_total"); n != 1 {
			w.faultf("the Envoy opened %v streams", n)
		}
	}

	if w.side == direct {
		w.plane.Set(withheld)
	} else {
		r := w.relays[0]
		r.config.Access.Rules = append(r.config.Access.Rules, allow(is, "denied"))
		r.restart()
	}
	w.within(soon, "the listener is live with its secret", w.presents(e, "shut", "denied.test"))
	w.within(prompt, "the other listener has its own", w.presents(e, "open", "renewed.test"))
	if w.side == relayed && w.form.envoy.REST {
		return // an Envoy that polls rejects an answer without the secret
	}
	w.unscathed(e)
}

// secures reports whether a listener completes a handshake.
func (w *world) secures(e *envoyproc.Envoy, listener string) bool {
	conn, err := w.shake(e, listener)
	if err == nil {
		_ = conn.Close() // nothing was written
	}
	return err == nil
}
