package srp

import "fmt"

// Problem is what is wrong with an information unit. It is an error, so that
// errors.Is(err, ProblemShort) asks for one.
type Problem uint8

// The problems a parser finds, and those a channel finds with a unit that is
// well formed.
const (
	ProblemShort            Problem = iota + 1 // fewer bytes than the unit's fixed part
	ProblemOpcode                              // not a unit that may arrive here
	ProblemAddCDB                              // additional CDB reaches beyond the unit
	ProblemFormatOut                           // data-out format reserved or not negotiated
	ProblemFormatIn                            // data-in format reserved
	ProblemDescriptorArea                      // descriptors reach beyond the unit
	ProblemImmediateRange                      // immediate data reaches beyond the unit
	ProblemImmediateOverlap                    // immediate data offset lies inside the descriptors
	ProblemTableLength                         // table length is no multiple of 16
	ProblemCount                               // more descriptors in the unit than in the table
	ProblemRemoteTable                         // table in initiator memory longer than is read from there
	ProblemTotal                               // total length exceeds the sum of the entries
	ProblemWrap                                // address + length exceeds 64 bits
	ProblemTransfer                            // buffer longer than the largest transfer
	ProblemBidirectional                       // data in both directions
	ProblemTaskAttribute                       // reserved task attribute
	ProblemVariable                            // variable part reaches beyond the unit
	ProblemCredit                              // request sent without a credit
	ProblemUnsolicited                         // response to a request that was not sent
	ProblemTag                                 // tag in use
	ProblemUnanswered                          // request of the target without an answer in time
)

var problemNames = [...]string{
	ProblemShort:            "too short",
	ProblemOpcode:           "invalid type of information unit",
	ProblemAddCDB:           "additional CDB reaches beyond the unit",
	ProblemFormatOut:        "unsupported data-out buffer descriptor format",
	ProblemFormatIn:         "unsupported data-in buffer descriptor format",
	ProblemDescriptorArea:   "buffer descriptors reach beyond the unit",
	ProblemImmediateRange:   "immediate data reaches beyond the unit",
	ProblemImmediateOverlap: "immediate data offset lies inside the descriptors",
	ProblemTableLength:      "indirect table length is not a multiple of 16",
	ProblemCount:            "descriptor count exceeds the indirect table",
	ProblemRemoteTable:      "indirect table in initiator memory is too long",
	ProblemTotal:            "total length exceeds the sum of the descriptors",
	ProblemWrap:             "descriptor wraps around the address space",
	ProblemTransfer:         "data buffer exceeds the largest transfer",
	ProblemBidirectional:    "data buffers in both directions",
	ProblemTaskAttribute:    "reserved task attribute",
	ProblemVariable:         "variable part reaches beyond the unit",
	ProblemCredit:           "request sent without a credit",
	ProblemUnsolicited:      "response without an outstanding request",
	ProblemTag:              "tag is in use",
	ProblemUnanswered:       "no answer in time",
}

// Error describes the problem.
func (p Problem) Error() string {
	if p == 0 || int(p) >= len(problemNames) {
		return fmt.Sprintf("problem %d", uint8(p))
	}
	return problemNames[p]
}

// ParseError says which unit was refused, why, and the numbers compared.
type ParseError struct {
	Opcode  Opcode
	Problem Problem
	Have    uint64 // what the unit holds or claims
	Limit   uint64 // what it is held against
}

// Error names the unit, the problem and the two numbers.
func (e *ParseError) Error() string {
	return fmt.Sprintf("srp: %v: %v (have %d, limit %d)", e.Opcode, e.Problem, e.Have, e.Limit)
}

// Unwrap returns the Problem.
func (e *ParseError) Unwrap() error { return e.Problem }

// Answer returns what a target answers to the unit.
func (e *ParseError) Answer() Answer { return e.Problem.Answer() }

// AnswerKind is the form of a target's answer to a unit that it refuses.
type AnswerKind uint8

const (
	// AnswerLogout is SRP_T_LOGOUT with Answer.Logout, then disconnect.
	AnswerLogout AnswerKind = iota + 1
	// AnswerCheck is SRP_RSP with CHECK CONDITION, ILLEGAL REQUEST, INVALID
	// FIELD IN CDB (5h/24h/00h). The fixed part of the SRP_CMD was parsed.
	AnswerCheck
	// AnswerOverlap is SRP_RSP with CHECK CONDITION, ABORTED COMMAND, OVERLAPPED
	// COMMANDS ATTEMPTED (Bh/4Eh/00h), once the older command has ended.
	AnswerOverlap
)

// Answer is what a target says to a unit that it refuses.
type Answer struct {
	Kind   AnswerKind
	Logout LogoutReason // of AnswerLogout
}

// Answer returns what a target answers: a broken unit, whose length or type
// cannot be trusted, ends the channel; a command that is whole but asks for
// what cannot be done gets a status.
func (p Problem) Answer() Answer {
	switch p {
	case ProblemOpcode:
		return Answer{AnswerLogout, LogoutInvalidIU}
	case ProblemFormatOut:
		return Answer{AnswerLogout, LogoutFormatOut}
	case ProblemFormatIn:
		return Answer{AnswerLogout, LogoutFormatIn}
	case ProblemUnsolicited:
		return Answer{AnswerLogout, LogoutUnsolicited}
	case ProblemCredit:
		return Answer{AnswerLogout, LogoutNoReason}
	case ProblemUnanswered:
		return Answer{AnswerLogout, LogoutInactive}
	case ProblemTag:
		return Answer{Kind: AnswerOverlap}
	case ProblemImmediateOverlap, ProblemTableLength, ProblemCount, ProblemRemoteTable, ProblemTotal,
		ProblemWrap, ProblemTransfer, ProblemBidirectional, ProblemTaskAttribute:
		return Answer{Kind: AnswerCheck}
	}
	return Answer{AnswerLogout, LogoutLength}
}

func fail(op Opcode, p Problem, have, limit uint64) error {
	return &ParseError{Opcode: op, Problem: p, Have: have, Limit: limit}
}

// fixed checks the type and the fixed part of a unit.
func fixed(b []byte, op Opcode, size int) error {
	if len(b) < size {
		return fail(op, ProblemShort, uint64(len(b)), uint64(size))
	}
	if Opcode(b[0]) != op {
		return fail(Opcode(b[0]), ProblemOpcode, uint64(b[0]), uint64(op))
	}
	return nil
}
