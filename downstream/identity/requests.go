package identity

import (
	"net/http"
	"slices"
)

// Requests gives the outermost handler of an HTTP server with the ConnContext [Context]. The connection of each
// request is told of it, whatever handler answers.
func Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := ClientOf(r.Context()).Conn()
		conn.Served()
		conn.Took(headerBytes(r))
		next.ServeHTTP(w, r)
	})
}

// headerBytes is how many bytes the headers of a request took at most, as far as they are known. HTTP/2 has a header
// that comes again in one byte, and its name alone too: each counts once. So a request counts for no more than it took,
// uncompressed, and what the connection's table of headers has, 4 KiB.
func headerBytes(r *http.Request) int {
	const around = 4 // of a line of HTTP/1.1
	n := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		if r.ProtoMajor == 1 {
			n += (len(values) - 1) * len(name)
		} else {
			values = distinct(values)
		}
		n += len(name)
		for _, value := range values {
			n += len(value) + around
		}
	}
	return n
}

// distinct leaves out values that are there before.
func distinct(values []string) []string {
	if len(values) < 2 {
		return values
	}
	values = slices.Clone(values) // others read them
	slices.Sort(values)
	return slices.Compact(values)
}
