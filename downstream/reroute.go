package downstream

// reroute looks again where the stream's names live, if there is another plan.
func (st *stream) reroute() error {
	plan := st.server.plans.Load()
	if plan == st.plan {
		return nil
	}
	st.plan = plan
	if st.routes == nil || !st.routes.Reroute() {
		return nil
	}
	return nil
}
