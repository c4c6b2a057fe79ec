package bridge

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"sync"
)

// handshakeLine is how go-plugin's first line begins: core protocol, plugin protocol, network.
var handshakeLine = regexp.MustCompile(`^([0-9]+)\|([0-9]+)\|(unix|tcp)\|`)

const maxHandshake = 16 << 10

// stdout stands between a plugin's standard output and go-plugin: it gives go-plugin the handshake line and then
// nothing more, whatever the plugin prints before and after it.
type stdout struct {
	io.ReadCloser // what go-plugin reads
	src           io.ReadCloser
	done          chan struct{} // closed when src has ended

	mu          sync.Mutex
	core, major int // of the handshake
	shaken      bool
}

func newStdout(src io.ReadCloser, log *lines) *stdout {
	r, w := io.Pipe()
	s := &stdout{ReadCloser: r, src: src, done: make(chan struct{})}
	go func() {
		err := s.filter(bufio.NewReaderSize(src, maxHandshake), w, log)
		log.flush()
		w.CloseWithError(err)
		close(s.done)
	}()
	return s
}

// filter copies the handshake line to w, everything else to log, until src ends. Its error is nil at the end of src.
func (s *stdout) filter(src *bufio.Reader, w io.Writer, log io.Writer) error {
	for {
		line, err := src.ReadSlice('\n')
		if m := handshakeLine.FindSubmatch(line); m != nil && bytes.HasSuffix(line, []byte{'\n'}) {
			s.note(m)
			if _, err := w.Write(line); err != nil {
				return err
			}
			break
		}
		_, _ = log.Write(line)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return endOf(err)
		}
	}
	_, err := io.Copy(log, src)
	return endOf(err)
}

func (s *stdout) note(m [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core, _ = strconv.Atoi(string(m[1]))
	s.major, _ = strconv.Atoi(string(m[2]))
	s.shaken = true
}

// handshake is what the plugin said, if it has.
func (s *stdout) handshake() (core, major int, shaken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core, s.major, s.shaken
}

func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
