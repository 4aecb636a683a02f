// Package directory reads directories, which are resources of a type TCollection and
// lead to others.
//
// It owns
//
//   - [Read], which takes a directory apart by the structure of its fields,
//     without knowing T (LIST-2): entries that are references, with the name that
//     they refer to, and entries that hold their resource inline (LIST-4);
//   - what is wrong with a directory ([FaultError]) or between two of them
//     ([Versions.Conflicts]), to be told to operators: a directory with faults is
//     relayed as it is, and what of it can be read is used.
//
// It does not own names (package keyer) nor what is done about members: asking
// for them ahead and serving entries by name are the relay's. It keeps nothing and may be called from any goroutine.
//
// What is read came from a server, which may be broken or hostile: nothing read
// here takes more than a fixed multiple of its own size, nor a stack deeper than
// a few levels.
package directory
