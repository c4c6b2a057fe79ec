package launcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/gosrpt/gosrpt/sdk/internal/isolation"
)

// always are the devices that every program may use.
var always = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"}

// system is where programs that are linked dynamically, and the interpreters of scripts, have what they run on.
var system = []string{"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"}

// ruleset is what Landlock is to enforce; fd is -1 if nothing is.
type ruleset struct {
	fd    int
	flags uint32
}

// newRuleset opens the paths, which needs the privileges that the process is about to lose.
func newRuleset(l isolation.Launch, warn io.Writer) (ruleset, error) {
	none := ruleset{fd: -1}
	if l.Files == nil {
		return none, nil
	}
	if _, err := llsys.LandlockGetABIVersion(); err != nil {
		if l.Files.Required {
			return none, fmt.Errorf("this kernel has no Landlock (%w), and the manifest requires it", err)
		}
		fmt.Fprintf(warn, "[WARN] this kernel has no Landlock (%v): the plugin is not restricted to its files\n", err)
		return none, nil
	}
	rules, err := rulesOf(l)
	if err != nil {
		return none, err
	}
	// Files and devices only: the network and signals stay as they are.
	fd, flags, err := landlock.Config{HandledAccessFS: landlock.V5.HandledAccessFS}.BestEffort().NewRulesetFD(rules...)
	return ruleset{fd, flags}, err
}

// restrict makes the ruleset this thread's.
func (r ruleset) restrict() error {
	if r.fd < 0 {
		return nil
	}
	return errors.Join(llsys.LandlockRestrictSelf(r.fd, r.flags), unix.Close(r.fd))
}

func rulesOf(l isolation.Launch) ([]landlock.Rule, error) {
	program := l.Path
	if l.File {
		program = "/proc/self/fd/" + strconv.Itoa(isolation.FileFD)
	}
	rules := []landlock.Rule{
		landlock.ROFiles(program),
		landlock.RWDirs(l.Private).WithRefer(),
		landlock.RWFiles(always...).IgnoreIfMissing(),
		landlock.RODirs(system...).IgnoreIfMissing(),
		landlock.ROFiles("/etc/ld.so.cache").IgnoreIfMissing(),
	}
	for _, path := range l.Files.ReadOnly {
		rule, err := readOnly(path)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	for _, path := range l.Files.ReadWrite {
		rule, err := readWrite(path)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func readOnly(path string) (landlock.Rule, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return landlock.RODirs(path), nil
	}
	return landlock.ROFiles(path), nil
}

// readWrite permits a path. What is not there yet can be made in its directory.
func readWrite(path string) (landlock.Rule, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Dir(path)
		st, err = os.Stat(path)
	}
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return landlock.RWDirs(path).WithIoctlDev(), nil
	}
	return landlock.RWFiles(path).WithIoctlDev(), nil
}
