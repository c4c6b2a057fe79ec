// Package verbs is RDMA by rdma-core: real adapters, and the kernel's own software devices. It is built with the tag verbs, where the
// headers of libibverbs, librdmacm and libibumad are; without the tag it is empty. It is the only package with cgo.
//
// Management datagrams go over libibumad: OpenUMAD and UMADAdapters.
package verbs
