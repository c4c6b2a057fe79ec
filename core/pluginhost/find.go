package pluginhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotFound says that no directory has the plugin.
var ErrNotFound = errors.New("plugin not found")

// prefix is what plugin executables' names begin with in a directory shared with other programs.
const prefix = "gosrpt-"

// Find returns the executable of a plugin: name itself if it is a path, else the first of "name" and "gosrpt-name" in the
// directories' order. It is absolute; symbolic links are followed at the start, once, so that an exchanged link
// changes the next start and not this one, and that the catalogue of the directory that has the link counts.
// The error wraps ErrNotFound if there is none, and says what was found that is no executable.
func Find(dirs []string, name string) (string, error) {
	if name == "" {
		return "", fmt.Errorf("pluginhost: a plugin without a name: %w", ErrNotFound)
	}
	if strings.ContainsRune(name, filepath.Separator) {
		return executable(name)
	}
	var unfit []error
	for _, dir := range dirs {
		for _, file := range []string{name, prefix + name} {
			path, err := executable(filepath.Join(dir, file))
			if err == nil {
				return path, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				unfit = append(unfit, err)
			}
		}
	}
	return "", errors.Join(append(unfit, fmt.Errorf("pluginhost: no executable %s or %s%s in %s: %w",
		name, prefix, name, strings.Join(dirs, ", "), ErrNotFound))...)
}

func executable(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("pluginhost: %w", err)
	}
	st, err := os.Stat(abs)
	switch {
	case err != nil:
		return "", fmt.Errorf("pluginhost: %w", err)
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("pluginhost: %s is not a file", path)
	case st.Mode()&0o111 == 0:
		return "", fmt.Errorf("pluginhost: %s is not executable: chmod +x it", path)
	}
	return abs, nil
}
