// Package files reads, follows and writes files: it tells when they change, has YAML as the JSON that it stands for,
// reads nodes, and is the file system as the relay's snapshots need it. What is in a file, and what becomes of it,
// belongs to its callers. An error has the place of what is wrong ([PlaceError]), and nothing of a file's contents
// that may be secret (OPS-6).
//
// # Following
//
// A [Watcher] hears of changes in the folders on the way to a file: an editor replaces a
// file, a ConfigMap swaps the symbolic link above it. A [Pacer] says when the time has
// come to look, which is when nobody writes any more. Control planes made of files have both;
// [WatchedFile] is all of it for one file. Where a system cannot watch, as
// network file systems cannot, polling finds what has changed.
//
// # YAML
//
// [YAMLToJSON] gives the JSON that YAML stands for, and knows where in the YAML each line of it comes from: what a
// parser of JSON, such as protojson, says is wrong in a line of the JSON is wrong at a line and column of the file.
//
// # Snapshots
//
// A [Disk] is one folder, whole files, and a lock. [OS] is the real one. Tests put a disk in its place that tears and
// loses writes. It promises no more than a POSIX file system does. What was written is on the disk after
// [File.Sync], and a new name after [Folder.Sync]. Before that a crash may keep any part of it.
// [Folder.Rename] replaces one file by another at once: a reader that opens the name has the one
// or the other as a whole.
package files
