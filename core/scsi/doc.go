// Package scsi holds SCSI as bytes: command descriptor blocks, status, sense data, and the parameter data of the
// commands that a direct-access block device answers (SAM-5, SPC-4, SBC-3).
//
// It is pure: nothing here knows of a logical unit, a clock or a network. A builder appends the whole answer to the
// caller's slice, with length fields that describe the whole answer; cutting it to the allocation length is Truncate's
// business, so that every answer is a prefix of the full one (SPC-4 4.2.5.6). Numbers on the wire are big-endian.
package scsi

// Truncate returns what of an answer is sent when the CDB allows alloc bytes: the answer's first
// alloc bytes, or all of it.
func Truncate(answer []byte, alloc uint64) []byte {
	if alloc < uint64(len(answer)) {
		return answer[:alloc]
	}
	return answer
}
