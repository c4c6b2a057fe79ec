// Package lab builds and boots the virtual machine that the end-to-end tests run in: a Debian kernel with its own SRP
// initiator, on an emulated CPU, so that neither KVM nor RDMA hardware is needed.
//
// The guest is made from Debian packages that are unpacked and never configured, and one module that is built from the kernel's source,
// which takes a minute or two, and is kept in a cache directory named by the hash of the recipe: a changed recipe is another directory.
// Everything that a job does is lost when the machine stops, except what it writes to its job directory.
package lab
