// Package hostile is for tests: logins and information units as no initiator may send them, the answer that each has to get, and
// channels that send any bytes over any provider. The tests of the target use it in memory, those of the daemon over roce, and those in
// the virtual machine over the kernel's RDMA stack.
package hostile
