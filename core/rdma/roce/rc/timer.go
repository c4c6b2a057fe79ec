package rc

import "github.com/gosrpt/gosrpt/core/ib"

// timer is the requester's clockwork: the retry timer with back-off, the round-trip estimate
// behind it (as RFC 6298), the early probe, and the pause after an RNR NAK.
type timer struct {
	least, most, probeLeast int64

	deadline    int64 // retry timer, 0 when nothing is awaited
	since       int64 // last progress, or when the timer was armed
	probes      uint  // early repetitions since the last progress
	unsent      bool  // the deadline is that of a repetition for want of room
	backoff     uint
	tries       int
	rnrTries    int
	pausedUntil int64

	srtt, rttvar int64
	samplePSN    ib.PSN
	sampleAt     int64 // 0: no measurement under way
}

func (t *timer) init(c *Config) {
	t.least, t.most, t.probeLeast = c.MinTimeout, c.MaxTimeout, c.Probe
}

// sample begins a measurement with a packet that is sent for the first time and will be answered.
func (t *timer) sample(now int64, psn ib.PSN) {
	if t.sampleAt == 0 {
		t.samplePSN, t.sampleAt = psn, now
	}
}

// forget drops the measurement: its packet may be sent twice (Karn's rule).
func (t *timer) forget() { t.sampleAt = 0 }

func (t *timer) measured(now int64, acked ib.PSN) {
	if t.sampleAt == 0 || !before(t.samplePSN, acked) {
		return
	}
	rtt := max(now-t.sampleAt, 1)
	t.sampleAt = 0
	if t.srtt == 0 {
		t.srtt, t.rttvar = rtt, rtt/2
		return
	}
	d := rtt - t.srtt
	t.srtt += d / 8
	t.rttvar += (max(d, -d) - t.rttvar) / 4
}

func (t *timer) estimate() int64 { return t.srtt + 4*t.rttvar }

func (t *timer) timeout() int64 {
	d := max(t.estimate(), t.least)
	for range t.backoff {
		if d *= 2; d >= t.most {
			return t.most
		}
	}
	return min(d, t.most)
}

// arm starts the retry timer unless it runs.
func (t *timer) arm(now int64) {
	if t.deadline == 0 {
		t.since = now
		t.deadline = now + t.timeout()
	}
}

// progress notes that the peer has answered something new.
func (t *timer) progress(now int64) {
	t.backoff, t.tries, t.rnrTries, t.probes = 0, 0, 0, 0
	t.since = now
	t.deadline = now + t.timeout()
	t.unsent = false
}

func (t *timer) stop() { t.deadline, t.unsent = 0, false }

func (t *timer) pause(until int64) {
	t.pausedUntil = until
	t.stop()
}

func (t *timer) paused(now int64) bool { return now < t.pausedUntil }

// maxProbes is how many early repetitions come before the retry timer, each after twice the time
// of the one before.
const maxProbes = 4

// probeAt is when an early repetition is due.
func (t *timer) probeAt() int64 {
	return t.since + max(t.probeLeast, t.estimate())*(1<<(t.probes+1)-1)
}

// mayProbe tells whether an early repetition makes sense: the answer is late, and the link has lost
// packets lately. What is repeated begins with the oldest packet, for a responder that has sent
// its one NAK for a gap is deaf to anything later.
func (m *Machine) mayProbe() bool {
	t := &m.req.timer
	return t.deadline != 0 && !t.unsent && t.probes < maxProbes && t.since < m.lossyUntil
}

func (m *Machine) tickRequester(now int64) {
	t := &m.req.timer
	if t.pausedUntil != 0 && now >= t.pausedUntil {
		t.pausedUntil = 0
	}
	m.tickReads(now)
	switch {
	case t.deadline != 0 && now >= t.deadline:
		m.timedOut(now)
	case m.mayProbe() && now >= t.probeAt():
		m.stats.Probes++
		t.probes++
		m.goBack(m.req.oldest())
	case m.cfg.KeepAlive != 0 && m.idle() && now >= m.lastHeard+m.cfg.KeepAlive:
		m.stats.KeepAlives++
		m.push(Write, 0).internal = true
	}
}

func (m *Machine) timedOut(now int64) {
	r := &m.req
	t := &r.timer
	if t.unsent {
		t.unsent = false
		t.stop()
		if r.outstanding() {
			m.goBack(r.oldest())
		}
		return
	}
	m.stats.Timeouts++
	if t.tries++; m.cfg.RetryLimit >= 0 && t.tries > m.cfg.RetryLimit {
		m.failAt(r.oldest(), RetryExceeded)
		return
	}
	m.lossy(now)
	t.backoff++
	t.probes = 0
	t.since = now
	t.deadline = now + t.timeout()
	m.shrink()
	r.window = min(r.window, max(minWindow/2, 1))
	m.goBack(r.oldest())
}

func (m *Machine) idle() bool { return m.req.head == m.req.tail }

func (m *Machine) requesterDeadline() int64 {
	t := &m.req.timer
	d := earlier(t.deadline, t.pausedUntil)
	if m.mayProbe() {
		d = earlier(d, t.probeAt())
	}
	if m.cfg.KeepAlive != 0 && m.idle() {
		d = earlier(d, m.lastHeard+m.cfg.KeepAlive)
	}
	for i := range m.req.nreads {
		if g := m.req.read(i).gap; g != 0 {
			d = earlier(d, g+m.cfg.Hold)
		}
	}
	return d
}
