// Package hostile is the guest's hostile initiator: its tests, built with the tag verbs, send what no initiator may send over the kernel's
// RDMA stack to a target that is configured as package core/target/hostile says. Without a target's address in the environment they skip.
package hostile
