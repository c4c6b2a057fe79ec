// Package sdk has no code. Its packages are what plugins of gosrpt are made of:
//
//   - backstore, auth, ioctx: the contracts of a store, an authoriser and a planner of I/O contexts. Stable.
//   - plugin: what a plugin's main calls. Stable.
//   - backstore/backstoretest, auth/authtest, ioctx/ioctxtest: the conformance kits.
//   - proto: the wire contract for plugins in other languages, explained in PROTOCOL.md. Stable.
//   - host: the host's half. Not stable.
//
// What stable means is in testdata/api: a listing of every exported name, which a test compares with the source. A
// line that disappears or changes there breaks somebody's plugin.
package sdk
