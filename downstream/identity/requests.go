package identity

import "net/http"

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

// headerBytes is how many bytes the headers of a request took at most, as far as they are known.
func headerBytes(r *http.Request) int {
	const around = 4 // of a line of HTTP/1.1
	n := len(r.Method) + len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + around
		}
	}
	return n
}
