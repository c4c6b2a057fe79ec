//go:build race

package target

const raceDetector = true
