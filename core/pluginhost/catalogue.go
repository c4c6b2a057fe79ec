package pluginhost

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// catalogueName is the file of a plugin directory that lists what may be started from it.
const catalogueName = "catalogue"

// maxText bounds a catalogue and a manifest, in bytes.
const maxText = 1 << 20

// ErrChecksum says that a file is not what its directory's catalogue lists.
var ErrChecksum = errors.New("not as catalogued")

// catalogue is what a plugin directory may start: the SHA-256 sum of each file by its name.
type catalogue struct {
	path string
	sums map[string]sum
}

// readCatalogue reads a directory's catalogue. There is none, and no error, if the directory has no such file.
func readCatalogue(dir string) (*catalogue, error) {
	path := filepath.Join(dir, catalogueName)
	text, err := readText(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pluginhost: nothing starts from %s while its catalogue cannot be read: %w", dir, err)
	}
	c := &catalogue{path: path}
	if c.sums, err = parseCatalogue(text); err != nil {
		return nil, fmt.Errorf("pluginhost: %s:%w", path, err)
	}
	return c, nil
}

func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("%s: longer than %d bytes", path, maxText)
	}
	return text, err
}

// parseCatalogue reads lines as sha256sum prints them. Empty lines and those that begin with # say nothing; the last line of a name
// counts, so that sha256sum can append. An error begins with the line's number.
func parseCatalogue(text []byte) (map[string]sum, error) {
	sums := map[string]sum{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxText+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimRight(lines.Text(), " \t\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, s, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n, err)
		}
		sums[name] = s
	}
	return sums, lines.Err()
}

func parseEntry(line string) (name string, s sum, err error) {
	digits, name, ok := strings.Cut(line, " ")
	if !ok || len(digits) != hex.EncodedLen(len(s)) {
		return "", s, errors.New(`no line as sha256sum prints it: 64 hexadecimal digits, two spaces, a file name`)
	}
	if _, err := hex.Decode(s[:], []byte(digits)); err != nil {
		return "", s, fmt.Errorf("%q is no SHA-256 sum: %w", digits, err)
	}
	// The second character is a space, or a star for binary.
	if name[:min(1, len(name))] != " " && name[:min(1, len(name))] != "*" {
		return "", s, errors.New("two spaces, or a space and a star, must stand before the file name")
	}
	name = name[1:]
	if name == "" || name != filepath.Base(name) || name == "." || name == ".." {
		return "", s, fmt.Errorf("%q is no name of a file in this directory", name)
	}
	return name, s, nil
}

// check compares what was found with what is listed.
func (c *catalogue) check(name string, found sum) error {
	want, listed := c.sums[name]
	dir := filepath.Dir(c.path)
	mend := fmt.Sprintf("if it is as it should be: cd %s && sha256sum %s >> %s", dir, name, catalogueName)
	switch {
	case !listed:
		return fmt.Errorf("pluginhost: %s is not in %s (its SHA-256 sum is %s); %s: %w",
			filepath.Join(dir, name), c.path, found, mend, ErrChecksum)
	case want != found:
		return fmt.Errorf("pluginhost: %s has the SHA-256 sum %s, but %s wants %s; %s: %w",
			filepath.Join(dir, name), found, c.path, want, mend, ErrChecksum)
	}
	return nil
}

// checkText checks a file that need not be listed.
func (c *catalogue) checkText(path string, text []byte) error {
	if c == nil || filepath.Dir(path) != filepath.Dir(c.path) {
		return nil
	}
	if _, listed := c.sums[filepath.Base(path)]; !listed {
		return nil
	}
	return c.check(filepath.Base(path), sha256.Sum256(text))
}
