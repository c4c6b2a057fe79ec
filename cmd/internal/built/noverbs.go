//go:build !verbs

package built

const verbs = false
