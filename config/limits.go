package config

import "time"

// Limits keep one client from harming the others (LIM-1). What is beyond a limit is refused by itself
// where that is possible, and counted.
type Limits struct {
	Connections          int      `yaml:"connections"`            // of all clients, through all listeners; 0: no limit
	ConnectionsPerSecond int      `yaml:"connections_per_second"` // new ones; beyond it they wait; 0: no limit
	StreamsPerConnection int      `yaml:"streams_per_connection"`
	Streams              int      `yaml:"streams"`             // and held polls, of all clients; 0: no limit
	Share                Percent  `yaml:"share"`               // of connections, streams, names and unfinished bytes for one address and one identity, while less than a tenth is free
	Scopes               int      `yaml:"scopes"`              // at a time, over all upstreams; 0: no limit
	FirstRequest         Duration `yaml:"first_request"`       // time of a new stream until its first request; 0: no limit
	RequestsPerSecond    int      `yaml:"requests_per_second"` // of one stream, beside answers to responses; beyond it reading waits; 0: no limit
	Subscriptions        int      `yaml:"subscriptions"`       // of one stream, over all types; 0: no limit
	NamesBytes           Size     `yaml:"names_bytes"`         // of all names of one stream; 0: no limit
	NamesTotal           Memory   `yaml:"names_total"`         // what the names of all streams weigh; 0: no limit
	NameBytes            Size     `yaml:"name_bytes"`          // of one name
	NodeBytes            Size     `yaml:"node_bytes"`          // of a client's node
	RESTBytes            Size     `yaml:"rest_bytes"`          // of answers to polls that are being written, of all clients; 0: no limit
	PollsPerClient       int      `yaml:"polls_per_client"`    // held at a time; 0: no limit
	UnfinishedBytes      Size     `yaml:"unfinished_bytes"`    // of messages that clients have begun, beyond the first 64 KiB of each; 0: no limit

	UnknownTypes int `yaml:"unknown_types"` // for one upstream and scope, that were never answered; 0: no limit

	Memory    Memory    `yaml:"memory"`    // of the process
	Admission Admission `yaml:"admission"` // of clients that join
	JoinWait  Duration  `yaml:"join_wait"` // of a stream or poll, for its turn
}

// maxAnswers is for how many bytes of answers to polls there may be room.
const maxAnswers = 1024 * GiB

func defaultLimits() Limits {
	return Limits{
		Connections:          200_000,
		ConnectionsPerSecond: 1000,
		StreamsPerConnection: 256,
		Streams:              200_000,
		Share:                25,
		Scopes:               100_000,
		FirstRequest:         Duration(10 * time.Second),
		RequestsPerSecond:    100,
		Subscriptions:        100_000,
		NamesBytes:           16 * MiB,
		NamesTotal:           AutoMemory,
		NameBytes:            2 * KiB,
		NodeBytes:            MiB,
		RESTBytes:            256 * MiB,
		PollsPerClient:       1000,
		UnfinishedBytes:      256 * MiB,
		UnknownTypes:         16,
		Memory:               AutoMemory,
		Admission:            AutoAdmission,
		JoinWait:             Duration(10 * time.Second),
	}
}

// limits checks limits. largest is the largest request.
func (k *checker) limits(l *Limits, largest Size) {
	k.atLeast("limits.connections", l.Connections, 0, " (no limit)")
	k.atLeast("limits.connections_per_second", l.ConnectionsPerSecond, 0, " (no limit)")
	k.atLeast("limits.streams_per_connection", l.StreamsPerConnection, 1, "")
	k.atLeast("limits.streams", l.Streams, 0, " (no limit)")
	if l.Share <= 0 {
		k.fail("limits.share", "expected more than 0, got %s", l.Share)
	}
	k.atLeast("limits.scopes", l.Scopes, 0, " (no limit)")
	if l.FirstRequest != 0 {
		k.between("limits.first_request", l.FirstRequest, Duration(time.Second), maxWait)
	}
	k.atLeast("limits.requests_per_second", l.RequestsPerSecond, 0, " (no limit)")
	k.atLeast("limits.subscriptions", l.Subscriptions, 0, " (no limit)")
	if l.NamesBytes != 0 {
		k.size("limits.names_bytes", l.NamesBytes, 64*KiB, maxMessage)
	}
	k.size("limits.name_bytes", l.NameBytes, 64, 64*KiB)
	k.size("limits.node_bytes", l.NodeBytes, KiB, maxMessage)
	if l.RESTBytes != 0 {
		k.size("limits.rest_bytes", l.RESTBytes, MiB, maxAnswers)
	}
	k.atLeast("limits.polls_per_client", l.PollsPerClient, 0, " (no limit)")
	if l.UnfinishedBytes != 0 && l.UnfinishedBytes < 2*largest { // the largest request fits beside another one
		k.fail("limits.unfinished_bytes", "expected 0 (no limit) or at least twice server.max_receive_size, %s, got %s", 2*largest, l.UnfinishedBytes)
	}
	k.between("limits.join_wait", l.JoinWait, Duration(100*time.Millisecond), maxWait)
	k.atLeast("limits.unknown_types", l.UnknownTypes, 0, " (no limit)")
}

// Memory is how many bytes the process may take, or the names of clients. 0: no limit.
type Memory Size

// AutoMemory is what the process's cgroup allows, or the machine has. As NamesTotal it is half of that, while memory is short.
const AutoMemory Memory = -1

const autoMemory = "auto"

// leastMemory is what a relay takes that does nothing.
const leastMemory = 64 * MiB

// String gives what UnmarshalText takes.
func (m Memory) String() string {
	if m == AutoMemory {
		return autoMemory
	}
	return Size(m).String()
}

// MarshalText gives auto, or a size.
func (m Memory) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText takes auto, or a size.
func (m *Memory) UnmarshalText(text []byte) error {
	if string(text) == autoMemory {
		*m = AutoMemory
		return nil
	}
	var size Size
	if err := size.UnmarshalText(text); err != nil {
		return mismatch("auto, or a size such as 512MiB or 2GiB", text)
	}
	if size != 0 && size < leastMemory {
		return mismatch("auto, 0 (no limit), or a size of "+leastMemory.String()+" or more", text)
	}
	*m = Memory(size)
	return nil
}

// atLeast checks a number. zero says what 0 stands for.
func (k *checker) atLeast(path string, n, least int, zero string) {
	if n < least {
		k.fail(path, "expected %d%s or more, got %d", least, zero, n)
	}
}

func (k *checker) size(path string, n, least, most Size) {
	if n < least || n > most {
		k.fail(path, "expected %s to %s, got %s", least, most, n)
	}
}
