// Package authtest is the conformance kit of sdk/auth: [Test] proves an Opener in the test of its author, without a
// host. Checks are chosen by what the authoriser can do; one that does not apply is skipped and says why.
package authtest
