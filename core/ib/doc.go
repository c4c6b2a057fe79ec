// Package ib holds the words of InfiniBand that every layer shares: addresses (GUID, GID, LID),
// partition keys, queue pair and packet sequence numbers, path MTU, link layer, and the common
// header of management datagrams. Values are plain and comparable; wire forms are big endian.
//
// Clauses are those of the InfiniBand Architecture Specification, volume 1 ("IBTA").
//
// The package is pure: it keeps no state and does no I/O.
package ib
