package cache

// identify notes what the control plane calls itself (STR-10). A server may say it with
// some of its responses only.
func (s *Store) identify(identifier string) {
	if identifier == "" {
		return
	}
	if known := s.controlPlane.Load(); known == nil || *known != identifier {
		s.controlPlane.Store(new(identifier)) // its own variable, or each call would allocate
	}
}

// ControlPlane is what the control plane called itself last (STR-10); nil if it never did.
// The pointer is another one as soon as the identifier is. Any goroutine may call it.
func (s *Store) ControlPlane() *string { return s.controlPlane.Load() }
