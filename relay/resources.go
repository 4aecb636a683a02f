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
			store := admin.Place{s.key.plane, s.key.scope, s.key.basis, s.key.forwarded}
			if !f.Store(store) {
				continue
			}
			key := f.Key
			if s.key.resolved {
				key = f.Resolved
			}
			infos := slices.DeleteFunc(s.store.Resources(f.TypeURL, key), func(i cache.Info) bool { return !f.Takes(store, &i) })
			slices.SortFunc(infos, func(a, b cache.Info) int {
				return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
			})
			for i := range infos {
				v := viewResource(a.relay.secrets, s.key, &infos[i], f.Payloads)
				v.Place = store.Of(&infos[i])
				if !yield(v) {
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
