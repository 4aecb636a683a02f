package envoy

import "slices"

// fault is something that is known to be wrong: the scenario fails in these forms, on
// this side. A listed case that does not fail is an error, so that the lists can only
// become shorter.
type fault struct {
	scenario    string
	forms       []form
	requirement string // of the relay; "" for what an Envoy without a relay sees
	seen        string // what is seen, in one sentence
	// sometimes: it depends on time whether the case fails.
	sometimes bool
}

// list names the list that the fault is on.
func (k *fault) list() string {
	if k.requirement == "" {
		return "what happens directly"
	}
	return "the relay's faults"
}

// knownFault is the fault that is listed for a play, or nil.
func knownFault(scenario, formName string, at side) *fault {
	list := directFaults()
	if at == relayed {
		list = relayFaults()
	}
	for i := range list {
		if k := &list[i]; k.scenario == scenario && slices.ContainsFunc(k.forms, func(f form) bool { return f.name == formName }) {
			return k
		}
	}
	return nil
}

// directFaults is what goes wrong with an Envoy that is directly at the control plane.
// The relay has no part in it.
func directFaults() []fault {
	const (
		silent   = "a changed cluster waits for endpoints that the Envoy does not ask for, or does not get, and serves only after this wait"
		whole    = "the Envoy uses no cluster of a response with an invalid cluster, and the control plane never sends the valid clusters again"
		notAgain = "the control plane does not send a rejected listener again after the conflicting listener is gone"
		withheld = "the control plane waits for an acknowledgement that the Envoy withholds while a cluster warms"
		beats    = "the Envoy treats a list of heartbeats as an empty list"
		sent     = "the control plane takes a rejected listener for one that the Envoy has, and does not send it again when its cluster is there"
		early    = "requests fail: the Envoy has the new route before the new cluster serves"
		paused   = "an Envoy that comes back while a cluster warms asks for no clusters until that has its endpoints, or until their initial_fetch_timeout"
		failing  = "requests fail: the old cluster is gone before the new one serves"
	)
	delta := []form{deltaADS, deltaPerType}
	return []fault{
		{
			scenario: "the server restarts, a route moved to a new cluster meanwhile",
			forms:    []form{deltaADS, stateADS, deltaPerType, statePerType, polled}, sometimes: true, seen: early,
		},
		{
			scenario: "the server restarts, a route moved to a new cluster meanwhile, beside the old one",
			forms:    []form{deltaADS, stateADS, deltaPerType, statePerType, polled}, sometimes: true, seen: early,
		},
		{scenario: "changed cluster, ordinary control plane", forms: []form{deltaADS, stateADS}, seen: silent},
		{scenario: "3 of 100 clusters invalid, an Envoy joins", forms: delta, seen: whole},
		{scenario: "3 of 100 clusters invalid, an Envoy joins, several responses", forms: delta, seen: whole},
		{scenario: "3 of 100 clusters become invalid", forms: delta, seen: whole},
		{scenario: "3 of 100 clusters become invalid, several responses", forms: delta, seen: whole},
		{scenario: "a listener whose address another listener has", forms: delta, seen: notAgain},
		{scenario: "15 listeners, each before its cluster", forms: delta, seen: sent},
		{scenario: "clusters change while one warms for ever", forms: []form{deltaADS, stateADS}, seen: withheld},
		{scenario: "a cluster warms for ever, streams break, clusters change", forms: []form{deltaADS, stateADS}, seen: paused},
		{scenario: "ttl, renewed by heartbeats", forms: []form{stateADS, statePerType}, seen: beats},
		{
			scenario: "cluster, endpoints and route replaced at once", forms: []form{deltaADS, stateADS},
			seen: failing, sometimes: true,
		},
		{
			scenario: "cluster, endpoints and route replaced in quick succession", forms: []form{deltaADS, stateADS},
			seen: failing, sometimes: true,
		},
	}
}

// relayFaults is what the relay does not do.
func relayFaults() []fault {
	const (
		unknown = "requests fail: the list of clusters lacks the old one, which a relay that restarted without a disk does not have, and the Envoy drops it before it has the new route"
		apart   = "requests may fail: each stream of an Envoy comes back at a time of its own, and routes wait for its other streams no longer than server.warm_wait"
		earlier = "requests fail if the control plane removes the old cluster before the Envoy's stream of clusters is back: the relay keeps a removed cluster for the lists of clients that are connected then"
		paused  = "an Envoy that comes back to a relay while a cluster warms asks for no clusters until that has its endpoints, or until their initial_fetch_timeout"
		polls   = "requests fail: polls of different types are independent of each other, and a poll for routes is answered although the client has not polled for the endpoints of the new cluster"
	)
	gone, beside := "the server restarts, a route moved to a new cluster meanwhile", "the server restarts, a route moved to a new cluster meanwhile, beside the old one"
	disk := "the relay restarts from its disk, a route moved to a new cluster meanwhile"
	return []fault{
		{scenario: "a cluster warms for ever, streams break, clusters change", forms: adsForms, requirement: "RES-11", seen: paused},
		{scenario: gone, forms: []form{stateADS, stateOnDelta, statePerType}, requirement: "ADS-4", seen: unknown, sometimes: true},
		{scenario: gone, forms: []form{deltaPerType}, requirement: "WARM-4", seen: apart, sometimes: true},
		{scenario: beside, forms: []form{deltaPerType, statePerType}, requirement: "WARM-4", seen: apart, sometimes: true},
		{scenario: disk, forms: []form{deltaPerType}, requirement: "WARM-4", seen: apart, sometimes: true},
		{scenario: disk, forms: []form{statePerType}, requirement: "ADS-4", seen: earlier, sometimes: true},
		{scenario: gone, forms: []form{polled}, requirement: "WARM-4", seen: polls, sometimes: true},
		{scenario: beside, forms: []form{polled}, requirement: "WARM-4", seen: polls, sometimes: true},
		{scenario: disk, forms: []form{polled}, requirement: "WARM-4", seen: polls, sometimes: true},
	}
}
