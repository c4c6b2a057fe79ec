package config

import (
	"maps"
	"strings"
	"testing"
)

func TestPluginSettingsKeepLetterCase(t *testing.T) {
	c := mustLoad(t, "auth: {plugin: auth, config: {List: /etc/A.yaml, weird_Key: V}}\nioctx: {plugin: Plan, config: {credits: 64}}\n")
	if c.Auth.Plugin != "auth" || !maps.Equal(c.Auth.Config, map[string]string{"List": "/etc/A.yaml", "weird_Key": "V"}) {
		t.Errorf("auth: %+v", c.Auth)
	}
	if c.IOCtx.Plugin != "Plan" || !maps.Equal(c.IOCtx.Config, map[string]string{"credits": "64"}) {
		t.Errorf("ioctx: %+v", c.IOCtx)
	}
}

func TestPluginSettingsByFlagWinOverEnvironmentOverFileAsAWhole(t *testing.T) {
	const file = "auth: {plugin: auth, config: {list: /file, other: x}}\n"
	t.Setenv("GOSRPT_AUTH_CONFIG", "list=/env;More=y")
	if got := mustLoad(t, file).Auth.Config; !maps.Equal(got, map[string]string{"list": "/env", "More": "y"}) {
		t.Errorf("environment: %v", got)
	}
	got := mustLoad(t, file, "--auth-config", "list=/flag,A=1", "--auth-config", "b=2=3").Auth.Config
	if !maps.Equal(got, map[string]string{"list": "/flag", "A": "1", "b": "2=3"}) {
		t.Errorf("flag: %v", got)
	}
}

func TestBadPluginSettingFlagIsRefused(t *testing.T) {
	for given, want := range map[string]string{"list": "key=value", "a=1,a=2": "set twice", "=x": "no key"} {
		_, err := load(t, "", "--ioctx-plugin", "x", "--ioctx-config", given)
		if err == nil || !strings.Contains(err.Error(), "--ioctx-config[0]") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", given, err, want)
		}
	}
}

func TestErrorsAboutTwoSettingsNameBoth(t *testing.T) {
	for yaml, want := range map[string][]string{
		"auth: {plugin: x}\nlogin: {initiators: [10.0.0.1]}\n":   {"remove login.initiators, or auth.plugin"},
		"plugin: {call_timeout: 10s, restart_wait: 10s}\n":       {"plugin.call_timeout", "plugin.restart_wait"},
		"auth: {config: {list: /x}}\n":                           {"auth.plugin", "list"},
		"auth: {plugin: x, timeout: 1m}\n":                       {"auth.timeout", "20s"},
		"luns: [{lun: 0, arena: 12KiB, config: {path: /x}}]\n":   {"session.max_transfer", "the plan"},
		"luns: [{lun: 0, config: {path: {a: /x}}}]\n":            {"luns[0].config.path"},
		"ioctx: {plugin: x, config: {credits: 4, credits: 5}}\n": {"credits"},
	} {
		_, err := load(t, yaml)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q", yaml, err, w)
			}
		}
	}
}
