// Package disk is the file system as the relay's snapshots need it: one folder, whole files,
// and a lock. [OS] is the real one. Tests put a disk in its place that tears and loses writes.
//
// The seam promises no more than a POSIX file system does. What was written is on the disk after
// [File.Sync], and a new name after [Folder.Sync]. Before that a crash may keep any part of it.
// [Folder.Rename] replaces one file by another at once: a reader that opens the name has the one
// or the other as a whole.
package disk
