// Package tokenfile has a bearer token from a file that others replace, for instance the projected
// token of a Kubernetes service account (ACC-6). Errors never quote the file.
package tokenfile
