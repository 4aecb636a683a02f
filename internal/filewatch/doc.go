// Package filewatch tells when files change.
//
// A [Watcher] hears of changes in the folders on the way to a file: an editor replaces a
// file, a ConfigMap swaps the symbolic link above it. A [Pacer] says when the time has
// come to look, which is when nobody writes any more. Package filesource has both for
// control planes made of files; [File] is all of it for one file.
//
// It does not own what is in a file, nor who reads it. Where a system cannot watch, as
// network file systems cannot, polling finds what has changed.
package filewatch
