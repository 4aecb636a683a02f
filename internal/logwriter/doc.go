// Package logwriter writes a log that never holds anybody up (LIM-4): lines go into a bounded
// queue, and one goroutine writes them. While what they are written to stalls, as a pipe that
// nobody reads does, lines that find no room are dropped and counted.
//
// It is for the writer below a slog handler, which writes each record at once. What stands in
// the lines is the caller's business.
package logwriter
