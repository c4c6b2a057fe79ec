// Package backstorefault puts faults into a store, for the tests of whoever uses one or builds one on another: errors,
// delays, torn writes, short reads, lost flushes.
//
//	s := backstorefault.Wrap(inner, 1,
//		backstorefault.Rule{Match: backstorefault.Writes, Every: 10, Fault: backstorefault.TornWrite(-1, backstore.CodeIO)},
//		backstorefault.Rule{Chance: 0.01, Fault: backstorefault.Delay(50 * time.Millisecond)})
//
// The same seed and the same order of requests give the same faults. The wrapper has the powers of what it wraps, as
// [backstore.Limited] says it; it is neither a Submitter nor has it Engines, so that every request passes through its methods.
package backstorefault
