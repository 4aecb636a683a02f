// Package tokenfile has bearer tokens from files that others replace: the token that the relay shows a
// control plane, for instance the projected token of a Kubernetes service account (ACC-6), and the
// tokens of the operators that the admin port knows (ACC-7). Errors and logs never quote a token.
package tokenfile
