package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/sockets"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// use is what an address is for.
type use int

const (
	connecting use = iota // to a server
	listening             // host and port may be left open: ":18100", "127.0.0.1:0"
)

// address checks host:port, and where the relay listens also unix:///path.
func (k *checker) address(path, value string, to use) {
	expected := "host:port"
	if to == listening {
		if _, is, err := sockets.Unix(value); is {
			if err != nil {
				k.fail(path, "%v", err)
			}
			return
		}
		expected = "host:port, :port or unix:///path"
	}
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		k.fail(path, "expected %s, got %q", expected, value)
		return
	}
	if !validHost(host) && (host != "" || to != listening) {
		k.fail(path, "expected %s, got %q: %q is neither an IP address nor a host name", expected, value, host)
	}
	least := uint64(1)
	if to == listening {
		least = 0
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < least {
		k.fail(path, "expected %s, got %q: %q is not a port from %d to 65535", expected, value, port, least)
	}
}

// hosts checks names of hosts, which have no port, or one star in place of their first
// label.
func (k *checker) hosts(path string, names []string) {
	for i, name := range names {
		if !validHost(strings.TrimPrefix(name, "*.")) {
			k.fail(fmt.Sprintf("%s[%d]", path, i), "expected the name of a host, as in xdsrelay.example.com or *.example.com, got %q", name)
		}
	}
}

// anyPort says whether the system chooses the port of a listening address.
func anyPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n == 0
}

// validHost takes IP addresses and DNS names; underscores too, which names in
// container networks have. A name that ends in a number is an address that was
// mistyped.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if len(host) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, wordCharacters) != "" {
			return false
		}
		last = label
	}
	return strings.Trim(last, "0123456789") != ""
}

// authority checks an xdstp authority by the grammar of RFC 3986's reg-name and
// port, or a suffix pattern of authorities, and gives the form in which it is
// compared (NAME-1, NAME-3, LOC-3). The empty one is valid: it is that of
// xdstp:///type/id.
func (k *checker) authority(path, value string) (canonical string) {
	if strings.Trim(value, wordCharacters+".~!$&'()*+,;=:%[]@") != "" {
		k.fail(path, "expected only the authority, as in xdstp://authority/…, got %q", value)
		return value
	}
	canonical, err := keyer.AuthorityPattern(value)
	if bad, ok := errors.AsType[*keyer.NameError](err); ok {
		k.fail(path, "%q: %s", value, bad.Reason)
		return value
	}
	return canonical
}
