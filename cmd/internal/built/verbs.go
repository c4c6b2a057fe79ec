//go:build verbs

package built

const verbs = true
