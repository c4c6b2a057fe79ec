package store

// Resize says how many blocks the store has by now: its medium has grown, or shrunk. Requests that are with the backend stay as they are.
// The error wraps ErrInfo, and then nothing has changed.
func (g *Guard) Resize(blocks uint64) error {
	info := g.info
	info.Blocks = blocks
	if why := impossible(&info); why != "" {
		return g.errorf("resize", "%s: %w", why, ErrInfo)
	}
	g.info = info
	g.size = info.Blocks * uint64(info.BlockSize)
	return nil
}
