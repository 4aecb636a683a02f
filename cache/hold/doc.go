// Package hold has what a table is told and clients are not yet: the names of which the
// server said something that is held back ([Names]), and the rule by which the loss of many
// resources at once is held (SUR-3: [Guard], [Window], [Clock]).
//
// A held name keeps its released content in the table, for clients that come too. The table
// asks this package only when something is lost or held: what is not held costs nothing, and
// what is held costs a map entry. Package cache decides what a loss is, and carries out what is
// released. All types are guarded by the lock of the store that has them.
package hold
