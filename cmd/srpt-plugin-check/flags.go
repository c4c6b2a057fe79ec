package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/plugintest"
)

// flags are the command's.
type flags struct {
	config, readOnly, env []string
	configFile            string
	match, output         string
	allowed, denied       string
	prepare, change       string
	list, bench, verbose  bool
	slow, volatile        bool
	timeout, duration     time.Duration
}

func (f *flags) register(fs *pflag.FlagSet) {
	fs.StringArrayVarP(&f.config, "config", "c", nil, "KEY=VALUE, a setting of what the plugin opens; repeat it")
	fs.StringVar(&f.configFile, "config-file", "", "YAML file with settings; --config goes before it")
	fs.StringArrayVar(&f.readOnly, "read-only", nil, "KEY=VALUE to add for opening the same store read-only (default: read_only=true, if declared)")
	fs.StringArrayVar(&f.env, "env", nil, "NAME=VALUE of the plugin's environment, which is empty otherwise")
	fs.BoolVar(&f.volatile, "volatile", false, "the store's content ends with its process")
	fs.StringVar(&f.prepare, "prepare", "", "shell command to run before each check")
	fs.StringVar(&f.change, "change", "", "shell command after which --allowed is refused, or the plan another")
	fs.StringVar(&f.allowed, "allowed", "", "auth: initiator port identifier that is let in")
	fs.StringVar(&f.denied, "denied", "", "auth: initiator port identifier that is refused")
	fs.BoolVar(&f.slow, "slow", false, "leave the ring out, gRPC only")
	fs.StringVar(&f.match, "run", "", "regular expression: only the checks whose names match")
	fs.BoolVar(&f.list, "list", false, "list the checks and run none")
	fs.BoolVar(&f.bench, "bench", false, "measure the plugin in place of checking it")
	fs.DurationVar(&f.duration, "duration", 3*time.Second, "how long --bench measures each job")
	fs.DurationVar(&f.timeout, "timeout", time.Minute, "how long a check may take")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "show what the plugin logs and prints")
}

// options are the flags as the kit takes them.
func (f *flags) options(args []string) (plugintest.Options, error) {
	o := plugintest.Options{
		Args: args[1:], Env: f.env, Volatile: f.volatile, Slow: f.slow, Prepare: f.prepare, Change: f.change, Limit: f.timeout,
	}
	if f.output != "text" && f.output != "json" {
		return o, fmt.Errorf("--output %s: text or json", f.output)
	}
	if f.timeout <= 0 || f.duration <= 0 {
		return o, fmt.Errorf("--timeout and --duration are more than nothing")
	}
	var err error
	if o.Path, err = executable(args[0]); err != nil {
		return o, err
	}
	if o.Config, err = f.settings(); err != nil {
		return o, err
	}
	if len(f.readOnly) > 0 {
		if o.ReadOnly, err = pairs("--read-only", f.readOnly); err != nil {
			return o, err
		}
	}
	if o.Match, err = regexp.Compile(f.match); err != nil {
		return o, fmt.Errorf("--run: %w", err)
	}
	o.Allowed, o.Denied, err = f.logins()
	level := hclog.Off
	if f.verbose {
		level = hclog.Debug
	}
	o.Log = hclog.New(&hclog.LoggerOptions{Name: "plugin", Level: level, Output: os.Stderr})
	return o, err
}

func executable(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is not an executable file", path)
	}
	return filepath.Abs(path)
}

// settings are those of the file, and those of the command line over them.
func (f *flags) settings() (map[string]string, error) {
	config := map[string]string{}
	if f.configFile != "" {
		text, err := os.ReadFile(f.configFile)
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(text, &config); err != nil {
			return nil, fmt.Errorf("--config-file %s: %w", f.configFile, err)
		}
	}
	more, err := pairs("--config", f.config)
	if config == nil { // of an empty file
		config = map[string]string{}
	}
	maps.Copy(config, more)
	return config, err
}

func pairs(flag string, list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range list {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%s %q is not KEY=VALUE", flag, s)
		}
		out[key] = value
	}
	return out, nil
}

func (f *flags) logins() (allowed auth.Login, denied *auth.Login, err error) {
	if f.allowed != "" {
		if allowed.Initiator, err = auth.ParseID(f.allowed); err != nil {
			return allowed, nil, fmt.Errorf("--allowed: %w", err)
		}
	}
	if f.denied != "" {
		denied = &auth.Login{}
		if denied.Initiator, err = auth.ParseID(f.denied); err != nil {
			return allowed, nil, fmt.Errorf("--denied: %w", err)
		}
	}
	return allowed, denied, nil
}
