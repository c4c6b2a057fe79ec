// Package load puts a load on a block device and measures it: a fixed number of requests is kept outstanding for a
// time, or the whole range is written and verified. The device is an SRP logical unit or a raw file.
package load
