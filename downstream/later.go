package downstream

// laterNames are names that a client presented of globs that it may subscribe to later.
type laterNames struct {
	names map[string]struct{}
	bytes int // of them
}

func (l *laterNames) add(name string) {
	if l.names == nil {
		l.names = make(map[string]struct{})
	}
	if _, there := l.names[name]; !there {
		l.names[name] = struct{}{}
		l.bytes += len(name)
	}
}

func (l *laterNames) remove(name string) {
	delete(l.names, name)
	l.bytes -= len(name)
}
