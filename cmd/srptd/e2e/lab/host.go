package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// ensureHost installs what the build and the boot run on the host, or says what to install.
func ensureHost(ctx context.Context, log io.Writer) error {
	missing := missingPackages(exec.LookPath)
	if len(missing) == 0 {
		return nil
	}
	install := "apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if os.Geteuid() != 0 {
		return fmt.Errorf("lab: the virtual machine needs packages of this host: run as root: %s", install)
	}
	return timed(log, "install "+strings.Join(missing, " "), func() error {
		if out, err := output(ctx, "apt-get", "update", "--quiet"); err != nil {
			return fmt.Errorf("lab: %w\n%s", err, out)
		}
		args := append([]string{"install", "--yes", "--no-install-recommends"}, missing...)
		if out, err := output(ctx, "apt-get", args...); err != nil {
			return fmt.Errorf("lab: %s: %w\n%s", install, err, out)
		}
		return nil
	})
}

// missingPackages lists the packages whose commands look does not find.
func missingPackages(look func(string) (string, error)) []string {
	var missing []string
	for _, p := range hostPackages {
		if _, err := look(p.command); err != nil {
			missing = append(missing, p.pkg)
		}
	}
	return missing
}
