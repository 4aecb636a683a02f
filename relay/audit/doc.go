// Package audit writes who was refused, who was given secrets, and who gave which command: a line of JSON for each. It bounds
// the lines of each identity, and those of each address of which no identity is known, so that nobody can hide what
// another one does. What an operator did is never left out.
//
// It decides nothing, and knows nothing of rules: its callers tell it what they decided. A nil [Log] is none.
package audit
