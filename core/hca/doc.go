// Package hca keeps the live table of HCAs and their ports: devices that come and go at run time, what their ports are like, and
// the Device Management agent on each port.
//
//	provider --events--> Table --> device --> port     each in a goroutine of its own
//	                       |          |          +- cache, re-read after every event
//	                       |          |          +- one MAD registration, and the goroutine that answers
//	                       |          +- User.Attach, Changed, Detach
//	                       +- history of events, with what was done about each
//
// # Events
//
// Whoever delivers events never waits for what they lead to: an event is put into the queue of its port or device, where equal ones become
// one, and is handled there in order. So an event of one port changes no other, and a device whose calls hang
// holds up nobody else. Every event of a port but an error leads to a full refresh, whatever the cache holds: what the event was about
// is read anew, not guessed. A refresh may be asked for any number of times, and leaves exactly one MAD registration.
//
// # Absence is normal
//
// A table may start with no device at all. What cannot be done yet is tried again: attaching a device, registering for datagrams.
package hca
