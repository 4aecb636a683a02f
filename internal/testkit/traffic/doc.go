// Package traffic makes HTTP requests through proxies under test, and answers them:
// backends that say who they are, and a load that never pauses and notes each request
// that failed.
package traffic
