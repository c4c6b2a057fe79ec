package ib

// PSN is a packet sequence number. It counts modulo 2^24; order is only defined between numbers
// less than 2^23 apart (IBTA 9.7.1).
type PSN uint32

// PSNMask covers the bits that a PSN has.
const PSNMask PSN = 0xFF_FFFF

// Add returns the PSN n after p, or before it if n is negative.
func (p PSN) Add(n int) PSN { return (p + PSN(uint32(n))) & PSNMask }

// Sub returns how far p is after q, -2^23 <= d < 2^23: negative if p is before q.
func (p PSN) Sub(q PSN) int { return int(int32((p-q)<<8) >> 8) }

// Before tells whether p comes before q.
func (p PSN) Before(q PSN) bool { return p.Sub(q) < 0 }

// After tells whether p comes after q.
func (p PSN) After(q PSN) bool { return p.Sub(q) > 0 }

// In tells whether p is one of the n numbers that start with first. n must not exceed 2^23.
func (p PSN) In(first PSN, n int) bool {
	d := p.Sub(first)
	return d >= 0 && d < n
}
