// Package lograte bounds the log that others can fill (LIM-4): of each message the log has a number of
// lines in a minute, and then how many more there were. It also shortens what stands in the lines, and
// takes out what is no UTF-8 or controls a terminal.
//
// A [Limit] stands before the handler that writes. All lines of a relay pass it, so that no line can be
// forgotten: messages are literals, and the message is the reason that the lines are counted by. What an
// operator did must not be left out; such lines go to a logger without a limit.
package lograte
