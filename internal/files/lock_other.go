//go:build !unix

package files

import "os"

// lock locks nothing: there is no flock.
func lock(*os.File) error { return nil }

// openToOthers is not in the mode of a folder.
func openToOthers(os.FileInfo) bool { return false }

// writable is what only the first file shows.
func writable(string) bool { return true }
