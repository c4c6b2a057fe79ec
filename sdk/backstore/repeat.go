package backstore

// repeatable are the operations that can be done again although they may have been done already, as long as nobody was
// told that they have ended.
var repeatable = [...]bool{OpRead: true, OpWrite: true, OpFlush: true, OpUnmap: true, OpWriteZeroes: true, OpWriteSame: true}

// Repeatable tells whether a request that a process took with it when it died may be given to the next one. Any other ends
// with CodeAborted then.
func (o Op) Repeatable() bool { return int(o) < len(repeatable) && repeatable[o] }
