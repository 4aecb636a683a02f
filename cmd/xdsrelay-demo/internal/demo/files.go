package demo

// spareFiles are for all but the clients' connections: listeners, the terminal,
// the runtime's own.
const spareFiles = 64

// affordable gives how many of the clients a limit of open files allows for. A
// connection takes one at either end, and both are in this process; joiners need
// theirs too.
func affordable(clients, perConnection int, limit uint64) int {
	needed := func(clients int) uint64 {
		all := clients + joiners(clients)
		return spareFiles + 2*uint64((all+perConnection-1)/perConnection)
	}
	for clients > 1 && needed(clients) > limit {
		// Steps that are small enough to come close and large enough to be few.
		clients -= max(1, clients/100)
	}
	return clients
}
