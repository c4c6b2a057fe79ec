// Package mad is the Device Management class (06h), by which initiators on a fabric find I/O controllers and the services
// that they offer: both ends of it, as bytes in and bytes out.
//
//   - Agent answers for a table of controllers.
//   - Query and Discovery ask, and read the answers.
//
// The package is pure: it does no I/O, takes no lock, and knows no clock. Agent is immutable, so that any number of
// goroutines may answer from one while another makes its successor.
//
// Clauses: IBTA vol 1, 13.4 (datagrams), 16.3 (the class); SRP r16a annex B.7 (what an SRP target says in it).
//
// # What is answered
//
//	Get ClassPortInfo          16.3.3.1  the modifier is reserved and not looked at
//	Get IOUnitInfo             16.3.3.3  likewise
//	Get IOControllerProfile    16.3.3.4  modifier: slot, all 32 bits
//	Get ServiceEntries         16.3.3.5  modifier: slot << 16 | last << 8 | first, four entries at the most
//
//	another attribute, any Set           000Ch  method/attribute combination not supported
//	another method                       0008h  method not supported
//	another class version                0004h  version not supported
//	slot 0, or beyond the last one       001Ch  invalid attribute or modifier
//	a range that is empty, too long or
//	reaches beyond the entries           001Ch
//	a slot with no controller            0100h  no response from the controller
//	a controller with no service         0200h  no service entries
//
// The answer is the request with its method, status and data replaced; the data of a failure is zero. Not answered at
// all, and counted by the caller per Drop, are datagrams that are not 256 bytes long, of another base version or class
// (their fields may lie elsewhere, so that the answer could not be addressed), responses (two agents would answer each
// other for ever), traps and their repression.
//
// # Where Linux differs
//
// The answers equal those that Linux's ib_srpt was recorded to give, byte for byte, but for these; testdata/linux.txt holds
// both.
//
//   - Vendor ids are in the upper 24 bits of their words, as 16.3.3.4 has them. Linux writes them unshifted, so that its
//     clients print 00FFFF for FFFFFF.
//   - A slot that IOUnitInfo shows empty has no controller. Linux answers for slot 2 as for slot 1.
//   - ServiceEntries holds the entries asked for. Linux gives the first one for 1..1.
//   - A bad range is a bad modifier, 001Ch. Linux says that the controller does not respond, 0100h, although it does.
//   - Another class version is answered with the status that 13.4.7 has for it. Linux's MAD layer answers 000Ch,
//     before ours, too, where it is in front of it (provider verbs).
//   - Methods other than Get and Set are refused at once. Linux's MAD layer lets the sender time out.
package mad
