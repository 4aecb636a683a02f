package metrics

import "github.com/prometheus/client_golang/prometheus"

// Snapshots are the metrics of what the relay keeps on a disk (cache.dir). Its methods may be
// called from any goroutine.
type Snapshots struct {
	written, bytes, failed, corrupt, restored prometheus.Counter
	off                                       prometheus.Gauge
}

func newSnapshots(s *set) *Snapshots {
	count := func(name, help string) prometheus.Counter {
		return s.counter("snapshot", name, help).WithLabelValues()
	}
	return &Snapshots{
		written: count("files_written_total", "Snapshots of stores that the relay wrote to cache.dir."),
		bytes:   count("written_bytes_total", "Size of the snapshots that the relay wrote to cache.dir."),
		failed:  count("failures_total", "Snapshots that the relay could not write or read."),
		corrupt: count("corrupt_files_total", "Snapshots that were corrupt. The relay put them aside."),
		restored: count("restored_resources_total",
			"Resources that the relay took from snapshots."),
		off: s.gauge("snapshot", "off",
			"1 while the relay writes no snapshots because the last one could not be written, otherwise 0.").WithLabelValues(),
	}
}

// Written counts a snapshot of a size. The relay writes snapshots.
func (s *Snapshots) Written(bytes int64) {
	s.written.Inc()
	s.bytes.Add(float64(bytes))
	s.off.Set(0)
}

// Off counts a snapshot that could not be written. The relay writes none for now.
func (s *Snapshots) Off() {
	s.failed.Inc()
	s.off.Set(1)
}

// Unreadable counts a snapshot that could not be read.
func (s *Snapshots) Unreadable() { s.failed.Inc() }

// Corrupt counts a snapshot that was put aside.
func (s *Snapshots) Corrupt() { s.corrupt.Inc() }

// Restored counts resources that were taken from a snapshot.
func (s *Snapshots) Restored(resources int) { s.restored.Add(float64(resources)) }
