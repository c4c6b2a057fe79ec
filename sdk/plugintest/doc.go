// Package plugintest is the conformance kit of executables: it starts a plugin as a host does, holds it to the kit of its kind over
// the wire, and then to what only a process can be held to: its start, its end, what it does with a host that dies or lies, and what is
// left after kill -9. srpt-plugin-check is its command.
//
// # Configuration
//
// The values of a configuration may contain {tmp}, which stands for a directory that is new for each check. A configuration
// without it is used for every check, one after the other: the data of that store are overwritten.
package plugintest
