package bridge

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
)

// handshakeLine is how go-plugin's first line begins: core protocol, plugin protocol, network.
var handshakeLine = regexp.MustCompile(`^[0-9]+\|[0-9]+\|(unix|tcp)\|`)

const maxHandshake = 16 << 10

// stdout stands between a plugin's standard output and go-plugin: it gives go-plugin the handshake line and then
// nothing more, whatever the plugin prints before and after it.
type stdout struct {
	io.ReadCloser // what go-plugin reads
	src           io.ReadCloser
}

func newStdout(src io.ReadCloser, log io.Writer) *stdout {
	r, w := io.Pipe()
	go func() {
		err := filter(bufio.NewReaderSize(src, maxHandshake), w, log)
		w.CloseWithError(err)
	}()
	return &stdout{ReadCloser: r, src: src}
}

// filter copies the handshake line to w, everything else to log, until src ends. Its error is nil at the end of src.
func filter(src *bufio.Reader, w io.Writer, log io.Writer) error {
	for {
		line, err := src.ReadSlice('\n')
		if handshakeLine.Match(line) && bytes.HasSuffix(line, []byte{'\n'}) {
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

func endOf(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
