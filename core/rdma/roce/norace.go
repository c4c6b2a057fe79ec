//go:build !race

package roce

func beforeSend()   {}
func afterReceive() {}
