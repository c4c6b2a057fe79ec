package initiator

// fifo is a queue that allocates only while it grows.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }

func (f *fifo[T]) push(v T) {
	if f.head > 0 && len(f.items) == cap(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	f.items = append(f.items, v)
}

func (f *fifo[T]) peek() T { return f.items[f.head] }

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	}
	return v
}

// remove takes out the first item for which match holds.
func (f *fifo[T]) remove(match func(T) bool) bool {
	for i := f.head; i < len(f.items); i++ {
		if match(f.items[i]) {
			copy(f.items[i:], f.items[i+1:])
			var zero T
			f.items[len(f.items)-1] = zero
			f.items = f.items[:len(f.items)-1]
			return true
		}
	}
	return false
}
