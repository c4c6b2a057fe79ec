// Package file is the backstore on a regular file or a block device. I/O is direct where the file
// system permits it, from the caller's buffer; every transfer is positional, so requests never share an offset.
package file
