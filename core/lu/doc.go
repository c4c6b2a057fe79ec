// Package lu is a SCSI direct-access block device over a guarded store: the device server of SAM-5.
//
// A Device is one logical unit as initiators know it: its identity, its capacity, and the unit attentions that wait for
// each I_T nexus. Any number of goroutines may share it. A Unit is the part of a device that belongs to one reactor,
// with that reactor's way to the store; it executes tasks. NewMissing and NewWellKnown make units for the LUNs where no
// device is.
//
// An opcode is a row of the table in table.go and a handler in the file of its family; REPORT SUPPORTED OPERATION CODES
// is answered from the same rows, and a CDB bit that a row's usage mask does not have is refused. What is not in the
// table is refused. A disk whose store can do more has more rows: its features follow from the powers in the store's Info,
// as do its VPD pages. What a store answers becomes status and sense in sense.go and nowhere else.
package lu
