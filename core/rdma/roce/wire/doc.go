// Package wire is the RoCEv2 packet: the payload of a UDP datagram to port 4791, from the base
// transport header to the invariant CRC (IBTA volume 1, chapter 9 and annex A17).
//
//	p, err := wire.Parse(datagram)            every length checked, nothing copied
//	id, ok := flow.Verify(p)                  the ICRC, without having seen the IP header
//	p.Opcode(), p.BTH(), p.RETH(), p.Payload()
//
//	b = wire.Header{Opcode: ..., PSN: ...}.Append(b[:0])
//	b = wire.AppendRETH(b, va, rkey, n)
//	b = append(b, data...)
//	b = wire.AppendPad(b, len(data))
//	b = flow.Seal(b, 0, 0)                    appends the ICRC
//
// A [Flow] stands for one direction between two UDP endpoints and holds the part of the ICRC that
// depends on addresses and ports, so that a packet costs one CRC over its own bytes.
//
// Nothing here allocates, except that building grows the caller's slice when it is too small.
// The package is pure: no state but constant tables, no I/O.
package wire
