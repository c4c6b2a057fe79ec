// Package e2e boots a virtual machine and lets the Linux kernel's SRP initiator use srptd in it.
//
// A job is a script in jobs/, run as root in the guest with the library of guest/. It promises named checks; each becomes a
// subtest, and one that does not report has failed. The tests have the build tag e2e:
//
//	go test -tags e2e -timeout 70m -v ./cmd/srptd/e2e
//
// They need root where host packages are missing, and fail without them; GOSRPT_E2E=skip skips them. The guest is built on
// first use and kept in GOSRPT_CACHE (package lab). GOSRPT_E2E_BIN is a directory of static programs to test instead of those
// of the source tree. GOSRPT_E2E_SOAK=10m is how long the lossless link is loaded, GOSRPT_E2E_KILLS=100 how often a plugin is
// killed, GOSRPT_E2E_CYCLES=200 how often something happens to an interface, GOSRPT_E2E_REMOVALS=50 how often an RDMA device is
// pulled out, GOSRPT_E2E_PLACES=all that srptd on verbs is tried on the initiator's device and on another one, and iWARP on one and two,
// GOSRPT_E2E_MATRIX=all that every choice of the initiator's options is, with two hundred logins in a row. BLKTESTS=DIR is a checkout of
// the blktests suite, whose SRP tests are skipped without; BLKTESTS_RUN="001 016" chooses some of them, BLKTESTS_TARGET=kernel runs them
// against ib_srpt, and BLKTESTS_SHIFT=0 in real time instead of on a clock that counts instructions. With -artifacts -outputdir DIR the
// job directories are kept: logs, the kernel's messages and a trace of every check.
package e2e

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gosrpt/gosrpt/cmd/srptd/e2e/lab"
)

//go:embed guest/*.sh jobs/*.sh
var scripts embed.FS

// programs are built statically and laid into the job directory's bin.
var programs = []string{
	"./cmd/srptd", "./cmd/srptctl", "./plugins/auth", "./plugins/ioctx", "./plugins/backstore-file", "./plugins/backstore-nvme",
	"./cmd/srptd/e2e/guest/dmquery",
}

// files are laid beside them: the plugins' manifests, so that they are kept apart as an operator's are, and what answers are held against.
var files = []string{"plugins/*/*.manifest.yaml", "core/mad/testdata/linux.txt"}

// Job is one boot of the guest.
type Job struct {
	Script   string            // jobs/<Script>.sh
	Machine  lab.Machine       // shape of the virtual machine
	Limit    time.Duration     // wall time for boot and job
	Env      map[string]string // variables of the job's environment
	Promises []string          // checks that must report
	Bin      string            // directory of the built programs, "" for a job that needs none
	Suite    string            // directory that the guest sees as /job/suite, "" for none
}

// Build compiles the programs from the source tree into dir, without cgo: the guest has other libraries than the host.
func Build(ctx context.Context, dir string) error {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("e2e: find the source tree: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-o", dir + "/"}, programs...)...)
	cmd.Dir = strings.TrimSpace(string(root))
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("e2e: build the programs: %w\n%s", err, out)
	}
	if err := buildVerbs(ctx, cmd.Dir, dir); err != nil {
		return err
	}
	return copyFiles(cmd.Dir, dir)
}

// buildVerbs compiles what needs cgo: srptd-verbs, which has the provider on rdma-core, that provider's tests, and the hostile initiator.
// They run with the guest's libraries, so this host must not be newer than the guest.
func buildVerbs(ctx context.Context, root, dir string) error {
	for _, args := range [][]string{
		{"build", "-trimpath", "-tags", "verbs", "-o", filepath.Join(dir, "srptd-verbs"), "./cmd/srptd"},
		{"test", "-c", "-trimpath", "-tags", "verbs", "-o", filepath.Join(dir, "verbs.test"), "./core/rdma/verbs"},
		{"test", "-c", "-trimpath", "-tags", "verbs", "-o", filepath.Join(dir, "hostile.test"), "./cmd/srptd/e2e/guest/hostile"},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("e2e: build with the tag verbs (Debian: libibverbs-dev, librdmacm-dev): %w\n%s", err, out)
		}
	}
	return nil
}

// copyFiles lays files beside the programs.
func copyFiles(root, dir string) error {
	for _, pattern := range files {
		list, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(list) == 0 {
			return fmt.Errorf("e2e: nothing is %s: %w", pattern, err)
		}
		for _, name := range list {
			b, err := os.ReadFile(name)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o644)
			}
			if err != nil {
				return fmt.Errorf("e2e: %w", err)
			}
		}
	}
	return nil
}

// Run runs the job with dir as its job directory, which is left for the caller to read. The report is valid even when the
// machine failed: it holds what was reported until then.
func Run(ctx context.Context, guest *lab.Guest, job Job, dir string, console io.Writer) (Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, job.Limit, fmt.Errorf("job %s had not ended after %v", job.Script, job.Limit))
	defer cancel()
	if err := layOut(dir, job); err != nil {
		return Report{}, fmt.Errorf("e2e: lay out job %s: %w", job.Script, err)
	}
	status, runErr := guest.Run(ctx, job.Machine, dir, job.Env, console)
	if runErr == nil && status != 0 {
		runErr = fmt.Errorf("e2e: job %s ended with status %d", job.Script, status)
	}
	b, err := os.ReadFile(filepath.Join(dir, "out/results"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return parseReport(string(b)), errors.Join(runErr, err)
}

// layOut writes the job's script, the guest's library and the programs.
func layOut(dir string, job Job) error {
	for _, d := range []string{"lib", "out", "bin"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := writeScript("jobs/"+job.Script+".sh", filepath.Join(dir, "job.sh")); err != nil {
		return err
	}
	library, err := fs.Glob(scripts, "guest/*.sh")
	if err != nil {
		return err
	}
	for _, name := range library {
		if err := writeScript(name, filepath.Join(dir, "lib", filepath.Base(name))); err != nil {
			return err
		}
	}
	return errors.Join(copyDir(filepath.Join(dir, "bin"), job.Bin), copyDir(filepath.Join(dir, "suite"), job.Suite))
}

// copyDir copies a directory, if there is one to copy.
func copyDir(to, from string) error {
	if from == "" {
		return nil
	}
	return os.CopyFS(to, os.DirFS(from))
}

func writeScript(name, to string) error {
	b, err := scripts.ReadFile(name)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}
