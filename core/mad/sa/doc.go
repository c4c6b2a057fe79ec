// Package sa is a part of the Subnet Administration class (03h): how a port asks a subnet's manager for the path to another
// one, and reads the answer. That part is Get of PathRecord.
//
// The package is pure, as package mad is. An administrator's answer is material: what does not belong to the query is
// mad.ErrMismatch, and PathQuery.Check says whether a record is one that was asked for and that can be used.
//
// Clauses: IBTA vol 1, 15.2.1 (datagrams), 15.2.3 (methods, statuses), 15.2.5.16 (PathRecord).
package sa
