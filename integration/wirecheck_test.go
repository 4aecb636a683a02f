package integration

// What a client checks on every response, whatever its variant.

// onceLocked checks that a response holds a name once (RES-4).
func (h *holdings) onceLocked(typeURL string, seen map[string]bool, name string) {
	if seen[name] {
		h.faultLocked("RES-4: %q of %s twice in one response", name, typeURL)
	}
	seen[name] = true
}

// nonceLocked checks that a nonce is new on its stream (STR-3).
func (c *grpcClient) nonceLocked(s *clientStream, typeURL, nonce string) {
	if nonce == "" || s.nonces[nonce] {
		c.faultLocked("STR-3: nonce %q of %s came before", nonce, typeURL)
	}
	if !c.forgets {
		s.nonces[nonce] = true
	}
}

// expectedLocked reports whether a resource that came is wanted. One that never
// was on this stream is a fault; one that no longer is was on its way.
func (h *holdings) expectedLocked(typeURL, name string) bool {
	a := h.askedLocked(typeURL)
	left := a.dropped[name] || a.dropped["*"]
	if !h.wantsLocked(typeURL, name) {
		if !left {
			h.faultLocked("%q of %s was never asked for", name, typeURL)
		}
		return false
	}
	if left && !h.subs[typeURL][name] {
		h.ambiguous = true
	}
	return true
}

// mayRepeatLocked reports whether there is a reason for a content that the client
// holds to come again (STR-7, RES-1), and uses that up.
func (h *holdings) mayRepeatLocked(typeURL, name string) bool {
	a := h.askedLocked(typeURL)
	switch {
	case a.named[name] > 0:
		a.named[name]--
	case a.used[name] < a.collections:
		a.used[name]++
	default:
		return false
	}
	return true
}

// putLocked takes a resource.
func (h *holdings) putLocked(typeURL, name string, x held) {
	if h.watch != nil {
		h.noteLocked(h.watch.put(typeURL, name, x))
	}
	if h.holds[typeURL] == nil {
		h.holds[typeURL] = make(map[string]held)
	}
	h.holds[typeURL][name] = x
	delete(h.absent[typeURL], name)
	if typeURL == routeType {
		h.fresh[name] = true
	}
}

// removedLocked takes a removal that the server told, which is of something that
// was asked for too.
func (h *holdings) removedLocked(typeURL, name string) {
	if a := h.askedLocked(typeURL); !h.wantsLocked(typeURL, name) && !a.dropped[name] && !a.dropped["*"] {
		h.faultLocked("the removal of %q of %s was never asked for", name, typeURL)
	}
	h.removeLocked(typeURL, name)
}

// removeLocked forgets a resource.
func (h *holdings) removeLocked(typeURL, name string) {
	if _, ok := h.holds[typeURL][name]; ok && h.watch != nil {
		h.noteLocked(h.watch.removed(typeURL, name))
	}
	delete(h.holds[typeURL], name)
	if h.absent[typeURL] == nil {
		h.absent[typeURL] = make(map[string]bool)
	}
	h.absent[typeURL][name] = true
}

func (h *holdings) noteLocked(fault string) {
	if fault != "" {
		h.faultLocked("%s", fault)
	}
}

// unbrokenLocked checks, after a response, that no route leads to a cluster that
// is not there (ADS-1).
func (h *holdings) unbrokenLocked(typeURL string) {
	if !h.unbroken || typeURL != routeType && typeURL != clusterType {
		return
	}
	for name, route := range h.holds[routeType] {
		if !h.fresh[name] || !h.wantsLocked(routeType, name) {
			continue
		}
		for _, target := range targetsOf(route.payload) {
			if _, ok := h.holds[clusterType][target]; !ok && target != "" {
				h.faultLocked("ADS-1: after a response for %s route %q leads to cluster %q, which is not held", typeURL, name, target)
			}
		}
	}
}
