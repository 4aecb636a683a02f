package relay

import (
	"cmp"
	"iter"
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// Resources implements admin.State.
func (a adminState) Resources(f *admin.ResourceFilter) iter.Seq[*admin.Resource] {
	return func(yield func(*admin.Resource) bool) {
		for _, s := range a.relay.hub.all() {
			key := f.Key
			if s.key.resolved {
				key = f.Resolved
			}
			infos := s.store.Resources(f.TypeURL, key)
			slices.SortFunc(infos, func(a, b cache.Info) int {
				return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
			})
			for i := range infos {
				if !yield(viewResource(a.relay.secrets, s.key, &infos[i], f.Payloads)) {
					return
				}
			}
		}
	}
}

// viewResource shows one name. Nothing secret is shown, nor what might be and cannot be looked into (OPS-6).
func viewResource(secrets *payload.Secrets, key sessionKey, i *cache.Info, payloads bool) *admin.Resource {
	v := &admin.Resource{Upstream: key.plane, Scope: key.scope, Info: *i}
	if payloads {
		v.Payload = secrets.JSON(i.Resource, i.TypeURL, payload.BySize)
	}
	return v
}
