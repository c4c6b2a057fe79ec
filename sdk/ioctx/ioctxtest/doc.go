// Package ioctxtest is the conformance kit of sdk/ioctx: [Test] proves an Opener in the test of its author, without a
// host. Checks are chosen by what the planner can do; one that does not apply is skipped and says why.
package ioctxtest
