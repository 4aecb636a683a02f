// Package logs has what stands between the relay's log and the handler that writes: bounds on the lines that others
// can cause (LIM-4), a writer that never holds anybody up, excerpts of what others say at length, and the panics
// that are caught and logged (SUR-6).
//
// A [Limit] stands before the handler that writes: of each message the log has a number of lines in a minute, and
// then how many more there were. It also shortens what stands in the lines, and takes out what is no UTF-8 or
// controls a terminal. All lines of a relay pass it, so that no line can be forgotten: messages are literals, and the
// message is the reason that the lines are counted by. What an operator did must not be left out; such lines go to a
// logger without a limit.
//
// A [Writer] is for below a slog handler, which writes each record at once.
//
// A [Panics] counts a panic, logs it with its stack once for each place in the code, and makes an error of it. What
// ends because of a panic is its caller's to decide. It stops no program that has run out of memory or stack, or that
// the runtime found in a deadlock or with a map that two goroutines write: nothing can.
package logs
