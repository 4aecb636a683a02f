// Package attack is clients that mean harm: each does one thing that cost a server its memory or
// its other clients their time. They speak HTTP/2 frame by frame, since no library lets its user
// do these things.
//
// An attacker runs in a process of its own, so that what it costs itself slows nobody but by the
// CPU that it takes, and so that it can be ended at any moment, as attackers are.
package attack
