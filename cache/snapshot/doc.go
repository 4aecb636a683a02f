// Package snapshot keeps what stores hold on a disk, for the next process (SUR-1).
//
// A [Folder] has one file for each store. docs/snapshot-format.md describes it. A file is written
// as a whole under another name, and renamed when it is on the disk. So a crash at any moment leaves
// the file of before or the new one. [Read] returns all of a file or an error: each record has a
// CRC32C, and so has the whole. A file that cannot be read is put aside.
//
// Secrets, resources with values in fields that Envoy's API declares sensitive, and resources that
// the server asked not to cache are not written (OPS-6). File names are hashes.
package snapshot
