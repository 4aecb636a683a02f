package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// Why says for one stream of a node why it has a resource, or why it does not.
type Why struct {
	Client   uint64                 `json:"client"` // the ID of the stream
	Node     string                 `json:"node"`
	Peer     string                 `json:"peer"`
	Sentence string                 `json:"sentence"`
	State    downstream.ClientState `json:"state,omitempty"` // of the type; absent: the client does not ask for it
	WaitsFor delivery.Wait          `json:"waits_for,omitempty"`
	From     []downstream.Origin    `json:"from"`
	Name     *delivery.Detail       `json:"name,omitempty"`    // as the client subscribes to it; absent: it does not
	Cached   []Resource             `json:"cached"`            // what the relay has of it in the client's scopes
	Rejects  bool                   `json:"rejects,omitempty"` // the client rejects it
	Reason   string                 `json:"reason,omitempty"`  // of that
}

// why looks at each stream of a node that asks for a type.
func (p *Pages) why(w http.ResponseWriter, q query) error {
	node, typeURL, name := q.Get("node"), q.typeURL(), q.Get("name")
	if node == "" || typeURL == "" || name == "" {
		return Wrong("node, type and name are required")
	}
	f, err := newResourceFilter(typeURL, name)
	if err != nil {
		return err
	}
	all := []Why{}
	for _, c := range p.State.Clients(ofNodes(node), only(typeURL, name)) {
		t, asks := c.Types[typeURL]
		if !asks {
			continue
		}
		v := Why{Client: c.ID, Node: c.Node, Peer: c.Peer, State: t.State, WaitsFor: t.WaitsFor, From: t.From, Cached: []Resource{}}
		for i := range t.Names {
			if t.Names[i].Name == name {
				v.Name = &t.Names[i]
			}
		}
		for r := range p.State.Resources(&f) {
			for _, o := range t.From {
				if r.Upstream == o.Upstream && r.Scope == o.Scope {
					v.Cached = append(v.Cached, *r)
				}
			}
		}
		v.Sentence = v.explain(&t, time.Now())
		all = append(all, v)
	}
	ok(w, all)
	return nil
}

// explain says it in a sentence.
func (v *Why) explain(t *downstream.TypeView, now time.Time) string {
	d := v.Name
	if d == nil {
		for i := range v.Cached {
			if v.Cached[i].State == "present" {
				return "The client does not ask for it, by name or otherwise. The relay has it, because others do."
			}
		}
		if t.Wildcard {
			return "The client asks for all of the type, and the relay does not have it: the control plane did not send it, or removed it."
		}
		return "The client does not ask for it, by name or otherwise, and the relay does not have it."
	}
	by := "by its name"
	switch d.By {
	case "name":
	case "alias":
		by = "by an alias"
	default:
		by = fmt.Sprintf("by %q", d.By)
	}
	age := ""
	if !d.Changed.IsZero() {
		age = fmt.Sprintf(", which came %s ago", now.Sub(d.Changed).Round(time.Second))
	}
	switch d.Status {
	case delivery.StatusAcked:
		s := fmt.Sprintf("The client asks for it %s, and acknowledged version %s%s.", by, d.Held, age)
		if v.WaitsFor == delivery.WaitsForRelease {
			s += " The guard or an operator holds something of the type: see xdsrelay held."
		}
		return s
	case delivery.StatusRequested, delivery.StatusTimeout:
		s := fmt.Sprintf("The client asks for it %s, and the control plane has not answered.", by)
		if v.WaitsFor == delivery.WaitsForUpstream {
			s += " The control plane is away."
		}
		return s
	case delivery.StatusMissing:
		return fmt.Sprintf("The client asks for it %s, and the control plane says that it does not exist.", by)
	case delivery.StatusError:
		return fmt.Sprintf("The client asks for it %s, and the control plane answered with an error: %s", by, d.Error)
	case delivery.StatusNacked:
		v.Rejects = true
		if t.LastNack != nil {
			v.Reason = t.LastNack.Message
		}
		return fmt.Sprintf("The client asks for it %s, and rejects version %s%s: %s", by, d.Cached, age, v.Reason)
	}
	if d.Sent != "" {
		return fmt.Sprintf("The client was sent version %s%s, and has not acknowledged it.", d.Sent, age)
	}
	return fmt.Sprintf("The client was not sent version %s yet%s: %s.", d.Cached, age, waits[v.WaitsFor])
}

// waits says what clients wait for.
var waits = map[delivery.Wait]string{
	delivery.WaitsForACK:      "it has not acknowledged the last response of the type",
	delivery.WaitsForUpstream: "the control plane is away, and a list without what is not known would take something away",
	delivery.WaitsForName:     "the control plane has not answered other names, and a list without them would take something away",
	delivery.WaitsForSettle:   "more may come, and a list without it would take something away",
	delivery.WaitsForTurn:     "it goes out behind other types",
	delivery.WaitsForRelease:  "the guard or an operator holds something of the type",
	delivery.WaitsForNothing:  "it is on its way",
}
