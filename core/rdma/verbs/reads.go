//go:build verbs

package verbs

// #include "shim.h"
import "C"

// reads is how many RDMA READs may be outstanding: made, as their requester, and served, as their responder.
type reads struct{ made, served uint8 }

// readsOf is what a device can do, at most most each way. Drivers tell of 0 and of less where they can do none.
func readsOf(made, served, most int) reads {
	return reads{uint8(min(max(made, 0), most)), uint8(min(max(served, 0), most))}
}

// agree is the lesser of both sides each way (IBTA vol 1, 12.6.5 and 12.6.8: responder resources, initiator depth), with the peer's offer
// as we see it: made is what it would serve. With made 0 no READ can be made: the first one would end the connection.
func (r reads) agree(peer reads) reads {
	return reads{min(r.made, peer.made), min(r.served, peer.served)}
}

func (r reads) c() C.struct_gv_reads {
	return C.struct_gv_reads{made: C.uint8_t(r.made), served: C.uint8_t(r.served)}
}
