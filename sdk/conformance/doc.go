// Package conformance runs the checks of a kit: as subtests of go test, or alone, for a tool.
//
// A kit is a list of [Check]; each is one promise of a contract. backstoretest, authtest and ioctxtest have kits of what runs in one
// process, plugintest of executables.
package conformance
