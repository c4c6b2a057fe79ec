package channel

// window is how many requests the initiator may send. It cannot go negative.
type window struct{ n uint32 }

// take uses one credit; false if there is none.
func (w *window) take() bool {
	if w.n == 0 {
		return false
	}
	w.n--
	return true
}

// grant gives n credits.
func (w *window) grant(n uint32) { w.n += n }

// left returns the credits the initiator holds.
func (w *window) left() uint32 { return w.n }
