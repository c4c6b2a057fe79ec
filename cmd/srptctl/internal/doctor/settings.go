package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gosrpt/gosrpt/core/config"
	"github.com/gosrpt/gosrpt/core/pluginhost"
)

// configuration reads the configuration that srptd would.
func (e *exam) configuration() {
	const check = "configuration"
	name := cmp.Or(e.host.ConfigFile, config.DefaultFile)
	if _, err := e.host.read(name); errors.Is(err, fs.ErrPermission) {
		e.add(NotChecked, check, name, "", "cannot be read%s; nothing is known of what srptd is to serve", e.asRoot())
		return
	}
	c, err := e.host.Config()
	var wrong *config.Error
	if errors.As(err, &wrong) {
		for _, p := range wrong.Problems {
			e.add(Problem, check, cmp.Or(wrong.File, "the environment"), "", "%s: %s", p.Where, p.What)
		}
		return
	}
	if err != nil {
		e.add(Problem, check, name, "", "%v", err)
		return
	}
	e.cfg = c
	if c.File == "" {
		e.add(OK, check, name, "", "there is none; the defaults and the environment hold")
	} else {
		e.add(OK, check, c.File, "", "valid")
	}
	if len(c.LUNs) == 0 {
		e.add(Warning, check, "luns", "", "there is none: initiators log in and see no disk")
	}
}

// control tries the control socket.
func (e *exam) control() {
	const check = "control"
	socket := e.host.Socket
	if socket == "" && e.cfg != nil {
		socket = e.cfg.Admin.Socket
	}
	if socket == "" {
		e.add(NotChecked, check, "socket", "", "without a configuration it is not known where it is; --socket names it")
		return
	}
	d, err := e.host.Ask(e.ctx, socket)
	switch {
	case err == nil:
		e.self = d.PID
		e.add(OK, check, socket, "", "srptd %s answers, up %v", d.Version, d.Up.Round(time.Second))
		if d.Version != e.host.Build.Version {
			e.add(Warning, check, socket, "install both from one build, and restart srptd", "srptctl is %s, srptd is %s", e.host.Build.Version, d.Version)
		}
	case errors.Is(err, fs.ErrPermission):
		e.add(NotChecked, check, socket, "", "cannot be used%s", e.asRoot())
	case errors.Is(err, fs.ErrNotExist) && len(e.daemons) > 0:
		e.add(Warning, check, socket, "name the socket with --socket, or the configuration with --config",
			"srptd runs (pid %d), and its control socket is not here", e.daemons[0].pid)
	case errors.Is(err, fs.ErrNotExist):
		e.add(OK, check, socket, "", "no srptd runs")
	case errors.Is(err, syscall.ECONNREFUSED) && len(e.daemons) == 0:
		e.add(OK, check, socket, "", "no srptd runs; an earlier one has left its socket, which the next one replaces")
	default:
		e.add(Problem, check, socket, "look at srptd's log; srptctl status", "srptd does not answer: %v", err)
	}
}

// plugins looks for the executables that the configuration names.
func (e *exam) plugins() {
	const check = "plugins"
	if e.cfg == nil {
		e.add(NotChecked, check, "executables", "", "there is no valid configuration that names any")
		return
	}
	var dirs []string
	for _, d := range e.cfg.PluginDirs {
		dirs = append(dirs, e.host.path(d))
	}
	used := map[string]string{}
	for _, l := range e.cfg.LUNs {
		used[l.Plugin] = fmt.Sprintf("LUN %d (%s)", l.LUN, l.Name)
	}
	for name, user := range map[string]string{e.cfg.Auth.Plugin: "every login", e.cfg.IOCtx.Plugin: "the plan of memory"} {
		if name != "" {
			used[name] = user
		}
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		path, err := pluginhost.Find(dirs, name)
		if err != nil {
			e.add(Problem, check, name, "install it, or name its directory: plugin_dir", "%s waits for it: %s", used[name],
				strings.ReplaceAll(strings.ReplaceAll(err.Error(), e.host.Root+"/", "/"), "pluginhost: ", ""))
			continue
		}
		e.add(OK, check, name, "", "%s", strings.TrimPrefix(path, e.host.Root))
	}
}
