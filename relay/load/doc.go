// Package load decides what the relay takes on, so that those who are served go on being served.
//
// [Memory] says how much of its memory the process has used up. [Admission] is the one place that
// decides: who joins now, who waits, and who is refused, by memory and by the work that others cause
// who join. What the client is told is the caller's to say.
package load
