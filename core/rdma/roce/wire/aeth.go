package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/gosrpt/gosrpt/core/ib"
)

// AETH is a view of the acknowledgement extended transport header, 4 bytes (IBTA 9.3).
type AETH []byte

// Syndrome is the kind of acknowledgement and its argument.
func (h AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN is the message sequence number, 24 bits: how many request messages the responder has completed.
func (h AETH) MSN() uint32 { return binary.BigEndian.Uint32(h) & 0xFF_FFFF }

// AppendAETH appends an acknowledgement header to dst. Only 24 bits of msn are used.
func AppendAETH(dst []byte, s Syndrome, msn uint32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(s)<<24|msn&0xFF_FFFF)
}

// Syndrome says what an acknowledgement means: bits 6..5 the kind, bits 4..0 a credit code, RNR
// timer code or NAK code (IBTA 9.7.5.2, table 44).
type Syndrome uint8

// The syndromes that have no argument. NAK codes per IBTA table 46.
const (
	// AckNoCredit acknowledges and says nothing about credits.
	AckNoCredit Syndrome = 0x1F
	// NAKSequence: a packet is missing; resend from the PSN of the NAK.
	NAKSequence Syndrome = 0x60
	// NAKInvalidRequest: the request is malformed or unsupported.
	NAKInvalidRequest Syndrome = 0x61
	// NAKRemoteAccess: the R_Key or the range is not allowed.
	NAKRemoteAccess Syndrome = 0x62
	// NAKRemoteOperation: the responder failed.
	NAKRemoteOperation Syndrome = 0x63
	// NAKInvalidRD belongs to the reliable datagram service.
	NAKInvalidRD Syndrome = 0x64
)

// AckKind is what a syndrome means in the main.
type AckKind uint8

// The kinds, bits 6..5 of the syndrome.
const (
	KindAck      AckKind = 0
	KindRNR      AckKind = 1
	KindReserved AckKind = 2
	KindNAK      AckKind = 3
)

// Ack is the positive acknowledgement that offers credits receive buffers to the requester,
// rounded down to the next value that has a code. A negative number is "no limit" (AckNoCredit).
func Ack(credits int) Syndrome { return Syndrome(CreditCode(credits)) }

// RNR is the receiver-not-ready NAK with a timer code 0..31.
func RNR(timer uint8) Syndrome { return Syndrome(0x20 | timer&0x1F) }

// Kind tells what the syndrome means. A syndrome with the top bit set is reserved.
func (s Syndrome) Kind() AckKind {
	if s&0x80 != 0 {
		return KindReserved
	}
	return AckKind(s >> 5)
}

// Credits is the number of receive buffers that a KindAck offers, and false if it sets no limit.
func (s Syndrome) Credits() (n int, limited bool) { return Credits(uint8(s & 0x1F)) }

// RNRDelay is how long the requester of a KindRNR must wait, in nanoseconds.
func (s Syndrome) RNRDelay() int64 { return RNRDelay(uint8(s & 0x1F)) }

// String tells kind and argument.
func (s Syndrome) String() string {
	switch s.Kind() {
	case KindAck:
		n, limited := s.Credits()
		if !limited {
			return "ACK"
		}
		return fmt.Sprintf("ACK with %d credits", n)
	case KindRNR:
		return fmt.Sprintf("RNR NAK, wait %d us", s.RNRDelay()/1000)
	case KindNAK:
		names := [...]string{"PSN sequence error", "invalid request", "remote access error", "remote operational error", "invalid RD request"}
		if c := int(s & 0x1F); c < len(names) {
			return "NAK, " + names[c]
		}
	}
	return fmt.Sprintf("reserved syndrome %#02x", uint8(s))
}

// credits is the end-to-end credit encoding (IBTA 9.7.7.2). Code 31 means that
// credits are not limited.
var credits = [31]uint16{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768}

// Credits is the number that a 5-bit credit code stands for, and false if it stands for no limit.
func Credits(code uint8) (n int, limited bool) {
	code &= 0x1F
	if int(code) == len(credits) {
		return 0, false
	}
	return int(credits[code]), true
}

// CreditCode is the code of the largest number not above n; 31, no limit, if n is negative.
func CreditCode(n int) uint8 {
	if n < 0 {
		return 31
	}
	code := len(credits) - 1
	for int(credits[code]) > n {
		code--
	}
	return uint8(code)
}

// rnrUnits is the RNR NAK timer in units of 10 us (IBTA 9.7.5.2, table 45).
var rnrUnits = [32]uint16{0: 65535, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 12, 8: 16, 9: 24, 10: 32, 11: 48, 12: 64,
	13: 96, 14: 128, 15: 192, 16: 256, 17: 384, 18: 512, 19: 768, 20: 1024, 21: 1536, 22: 2048, 23: 3072, 24: 4096,
	25: 6144, 26: 8192, 27: 12288, 28: 16384, 29: 24576, 30: 32768, 31: 49152}

// RNRDelay is the time that a 5-bit RNR timer code stands for, in nanoseconds, 10 us to 655.36 ms.
func RNRDelay(code uint8) int64 {
	code &= 0x1F
	units := int64(rnrUnits[code])
	if code == 0 {
		units++ // 65536 does not fit the table
	}
	return units * 10_000
}

// RNRCode is the code of the shortest time not below ns nanoseconds. Longer than 655.36 ms gives
// 0, the longest.
func RNRCode(ns int64) uint8 {
	for code := uint8(1); code < 32; code++ {
		if RNRDelay(code) >= ns {
			return code
		}
	}
	return 0
}

// AppendAck appends a whole acknowledgement packet without its ICRC.
func AppendAck(dst []byte, pkey ib.PKey, dest ib.QPN, psn ib.PSN, s Syndrome, msn uint32) []byte {
	dst = Header{Opcode: Acknowledge, PKey: pkey, DestQP: dest, PSN: psn}.Append(dst)
	return AppendAETH(dst, s, msn)
}
