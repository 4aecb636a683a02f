// Package watch carries out `xdsrelay watch`: it follows a server's resources
// like a client would and prints every change, as lines for people or as JSON
// objects for programs.
//
// It owns what is printed and when the watching ends. The protocol, in whatever
// variant, is an [xdsclient.Client]'s, which gives the same changes for all of
// them; addresses, files, flags and the question whether the output is a terminal
// are the command's.
//
// Secrets are not shown (OPS-6), which is package payload's concern. What is inside
// of a type that this build does not know cannot be told apart and is shown as it
// came: who watches is a client of the server, and gets it anyway.
package watch
