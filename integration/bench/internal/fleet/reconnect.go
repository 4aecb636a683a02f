//go:build linux

package fleet

// Disconnect cuts all connections, as a network does. The clients keep what they
// hold.
func (f *Fleet) Disconnect() {
	f.each(func(l *loop) {
		for _, c := range l.conns {
			l.close(c)
		}
	})
}

// Reconnect has all clients connect again while the method returns, and ask for what
// subscribe says. What they hold of anew, numbers in the catalogue, they forget: that is
// what they then wait for.
func (f *Fleet) Reconnect(anew []int, subscribe func(client int) []Subscription) {
	f.each(func(l *loop) {
		for _, cl := range l.clients {
			cl.subscriptions = subscribe(cl.id)
			for _, number := range anew {
				if held := cl.held[number]; held != unwanted && held != nothing {
					cl.hold(number, held, nothing)
				}
			}
			if cl.stream == 1 {
				l.dialling = append(l.dialling, cl.conn)
			}
		}
	})
}
