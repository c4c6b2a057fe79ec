// Package shm is the one door to the kernel's shared memory: sealed memfds, their mappings, eventfds as doorbells, and
// the descriptor channel that carries them from one process to another. Linux only.
package shm
