// Package load decides which clients the relay takes on, so that the clients that it serves stay served.
//
// [Memory] says how much of its memory the process has used up. [Admission] is the one place that
// decides which client joins now, waits or is refused. It goes by memory, and by the work of the other
// clients that join. The caller decides what a client is told.
package load
