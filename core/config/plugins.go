package config

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// configured are the settings that hold a plugin's own configuration. Like those of LUNs they do not go through viper, so
// that no letter case is lost.
var configured = []string{"auth.config", "ioctx.config"}

// configFlag and configEnv are the other places of such a setting.
func configFlag(key string) string { return Key{Name: key}.Flag() }
func configEnv(key string) string  { return Key{Name: key}.Env() }

func addConfigFlags(fs *pflag.FlagSet) {
	for _, key := range configured {
		kind, _, _ := strings.Cut(key, ".")
		fs.StringArray(configFlag(key), nil, "the "+kind+" plugin's own settings as key=value,key=value; repeatable, replaces the file's")
	}
}

// configNode reads a plugin's configuration from the file.
func configNode(path string, n *yaml.Node, p *problems) []field {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		p.add(path+" ("+line(n)+")", "must be a mapping of the plugin's own settings")
		return nil
	}
	return fields(path, n, p)
}

// pluginConfig is a plugin's configuration: of its flag, else of its environment variable, else of the file.
func pluginConfig(key string, file []field, fs *pflag.FlagSet, p *problems) map[string]string {
	if given := arrayFlag(fs, configFlag(key)); len(given) > 0 {
		file = configSpecs("--"+configFlag(key), given, p)
	} else if env := os.Getenv(configEnv(key)); env != "" {
		file = configSpecs(configEnv(key), strings.Split(env, ";"), p)
	}
	m := map[string]string{}
	putAll(m, file, p)
	return m
}

// configSpecs parses the short form key=value,key=value.
func configSpecs(from string, specs []string, p *problems) []field {
	var out []field
	for i, s := range specs {
		where := fmt.Sprintf("%s[%d]", from, i)
		for _, f := range pairs(where, s, p) {
			if f.key == "" {
				p.add(where, "%q has no key", s)
			}
			out = append(out, f)
		}
	}
	return out
}

// pairs parses key=value,key=value.
func pairs(where, spec string, p *problems) []field {
	var out []field
	for _, kv := range strings.Split(spec, ",") {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			p.add(where, "%q is not key=value", kv)
			continue
		}
		out = append(out, field{where: where + "." + k, key: k, value: v})
	}
	return out
}

// putAll makes a plugin's configuration of its fields.
func putAll(m map[string]string, list []field, p *problems) {
	for _, f := range list {
		if _, dup := m[f.key]; dup {
			p.add(f.where, "is set twice")
		}
		if f.sub != nil {
			p.add(f.where, "must be a single value")
		}
		m[f.key] = f.value
	}
}

func isPluginName(s string) bool { return s != "" && !strings.ContainsAny(s, "/\x00") }

// validatePlugins looks at the plugins of the control plane, and at what goes with them.
func (c *Config) validatePlugins(p *problems) {
	for _, k := range []struct {
		kind, plugin string
		config       map[string]string
	}{{"auth", c.Auth.Plugin, c.Auth.Config}, {"ioctx", c.IOCtx.Plugin, c.IOCtx.Config}} {
		switch {
		case k.plugin == "" && len(k.config) > 0:
			p.add(k.kind+".config", "%v is set, but %s.plugin is not: name the plugin, or remove it", slices.Sorted(maps.Keys(k.config)), k.kind)
		case k.plugin != "" && !isPluginName(k.plugin):
			p.add(k.kind+".plugin", "%q must be the name of an executable in a plugin_dir", k.plugin)
		}
	}
	if c.Auth.Plugin != "" && len(c.Login.Initiators) > 0 {
		p.add("login.initiators", "the plugin of auth.plugin alone decides who may log in: remove login.initiators, or auth.plugin")
	}
	if c.Auth.Timeout >= LoginTime {
		p.add("auth.timeout", "%v must be less than the %v that a login may take", c.Auth.Timeout, LoginTime)
	}
	if c.Plugin.CallTimeout <= c.Plugin.RestartWait {
		p.add("plugin.call_timeout", "%v must be more than plugin.restart_wait, %v: a request that waits for a new process would end before it is there",
			c.Plugin.CallTimeout, c.Plugin.RestartWait)
	}
}
