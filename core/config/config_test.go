package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func load(t *testing.T, yaml string, args ...string) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "srptd.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(file, fs)
}

func mustLoad(t *testing.T, yaml string, args ...string) *Config {
	t.Helper()
	c, err := load(t, yaml, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaultsAreAValidConfiguration(t *testing.T) {
	c := mustLoad(t, "")
	if c.Provider != "roce" || c.Port != 5555 || c.Session.DeadPeer != 30*time.Second || !c.RoCE.Segmentation {
		t.Errorf("defaults: %+v", c)
	}
	if c.Target.IOCGUID == 0 || c.Target.IDExt != c.Target.IOCGUID || c.Target.IOCGUID>>56 != 0x12|c.Target.IOCGUID>>56&^3 {
		t.Errorf("derived ids: %x %x", c.Target.IDExt, c.Target.IOCGUID)
	}
	if again := mustLoad(t, ""); again.Target != c.Target {
		t.Errorf("derived ids differ between two loads: %x, %x", c.Target, again.Target)
	}
}

func TestFlagWinsOverEnvironmentOverFileOverDefault(t *testing.T) {
	const file = "roce: {target_ack_delay: 18}\n"
	if got := mustLoad(t, "").RoCE.TargetAckDelay; got != 16 {
		t.Errorf("default: %d", got)
	}
	if got := mustLoad(t, file).RoCE.TargetAckDelay; got != 18 {
		t.Errorf("file: %d", got)
	}
	t.Setenv("GOSRPT_ROCE_TARGET_ACK_DELAY", "20")
	if got := mustLoad(t, file).RoCE.TargetAckDelay; got != 20 {
		t.Errorf("environment: %d", got)
	}
	if got := mustLoad(t, file, "--roce-target-ack-delay=22").RoCE.TargetAckDelay; got != 22 {
		t.Errorf("flag: %d", got)
	}
}

// sample gives every key a value other than its default, as text.
var sample = map[string]string{
	"provider": "roce", "listen": "10.0.0.1,10.0.0.2", "port": "7000", "target.id_ext": "0x0011223344556677",
	"target.ioc_guid": "1122334455667788", "login.initiators": "10.0.0.9", "login.max_channels": "3",
	"login.total_channels": "9", "login.port_channels": "5", "login.reserve": "2", "login.shared_receives": "512", "login.queue_depth": "64", "login.immediate": "false",
	"session.dead_peer": "7s", "session.max_transfer": "1MiB", "plugin_dir": "/a,/b",
	"plugin.start_timeout": "9s", "plugin.call_timeout": "80s", "plugin.restart_wait": "6s", "plugin.hang": "7s",
	"auth.plugin": "auth", "auth.timeout": "3s", "ioctx.plugin": "ioctx",
	"admin.socket": "/x/y", "admin.metrics": "127.0.0.1:1", "log.level": "debug", "log.json": "true",
	"roce.interfaces": "eth*,10.1.0.0/16,!eth1", "roce.target_ack_delay": "20", "roce.receive_buffer": "1MiB", "roce.segmentation": "false", "verbs.service_id": "false",
}

func TestEveryKeyCanBeSetByEnvironmentAndByFlagAlike(t *testing.T) {
	for _, k := range Keys() {
		text, ok := sample[k.Name]
		if !ok {
			t.Errorf("%s: no sample value in this test", k.Name)
			continue
		}
		byFlag := mustLoad(t, "", "--"+k.Flag()+"="+text)
		t.Run(k.Name, func(t *testing.T) {
			t.Setenv(k.Env(), text)
			byEnv := mustLoad(t, "")
			byFlag.File, byEnv.File = "", ""
			if got, want := fmt.Sprintf("%+v", byEnv), fmt.Sprintf("%+v", byFlag); got != want {
				t.Errorf("environment gives %s\nflag gives %s", got, want)
			}
			os.Unsetenv(k.Env())
			unset := mustLoad(t, "")
			unset.File = ""
			if k.Name != "provider" && fmt.Sprintf("%+v", byFlag) == fmt.Sprintf("%+v", unset) {
				t.Errorf("setting %s changes nothing", k.Name)
			}
		})
	}
}

func TestLUNListKeepsLetterCaseAndOrder(t *testing.T) {
	c := mustLoad(t, `
luns:
  - {lun: 3, name: Disk01, plugin: backstore-file, config: {path: /A, Weird_Key: V}}
  - {lun: 4, name: disk.02, serial: S1, read_only: true, arena: 32MiB, process: shared, config: {path: /b, size: 1GiB}}
`)
	if len(c.LUNs) != 2 {
		t.Fatalf("%d LUNs", len(c.LUNs))
	}
	a, b := c.LUNs[0], c.LUNs[1]
	if a.LUN != 3 || a.Name != "Disk01" || a.Config["Weird_Key"] != "V" || a.Config["path"] != "/A" || a.Process != ProcessOwn {
		t.Errorf("first: %+v", a)
	}
	if b.LUN != 4 || b.Name != "disk.02" || b.Serial != "S1" || !b.ReadOnly || b.Arena != 32<<20 || b.Process != ProcessShared || b.Config["size"] != "1GiB" {
		t.Errorf("second: %+v", b)
	}
}

func TestLUNFlagsReplaceTheFilesList(t *testing.T) {
	c := mustLoad(t, "luns: [{lun: 3, name: x}]", "--lun", "lun=1,name=y,path=/disk,size=1GiB", "--lun", "lun=2,name=z,plugin=other")
	if len(c.LUNs) != 2 || c.LUNs[0].Name != "y" || c.LUNs[0].Config["size"] != "1GiB" || c.LUNs[1].Plugin != "other" {
		t.Errorf("LUNs: %+v", c.LUNs)
	}
	t.Setenv("GOSRPT_LUNS", "lun=7,name=e,path=/q;lun=8,name=f")
	if c := mustLoad(t, "luns: [{lun: 3, name: x}]"); len(c.LUNs) != 2 || c.LUNs[0].LUN != 7 {
		t.Errorf("LUNs by environment: %+v", c.LUNs)
	}
}

func TestWrongConfigurationNamesEveryProblemAndItsPlace(t *testing.T) {
	cases := []struct {
		name, yaml string
		want       []string
	}{
		{"misspelled key", "port: 5\nlunz: []\n", []string{"lunz (line 2)"}},
		{"misspelled nested key", "roce:\n  ack: 1\n", []string{"roce.ack (line 2)"}},
		{"group that is a scalar", "roce: 7\n", []string{"roce (line 1)"}},
		{"not a mapping", "- a\n", []string{""}},
		{"not YAML", "a: [", []string{"file"}},
		{"port", "port: 70000\n", []string{"port"}},
		{"several at once", "port: 0\nprovider: x\nlog: {level: loud}\n", []string{"port", "provider", "log.level"}},
		{"address", "listen: [nonsense]\n", []string{"listen"}},
		{"link-local without zone", "listen: ['fe80::1']\n", []string{"listen"}},
		{"identity", "target: {ioc_guid: '12'}\n", []string{"target.ioc_guid"}},
		{"duration", "session: {dead_peer: soon}\n", []string{"session.dead_peer"}},
		{"zero duration", "session: {dead_peer: 0s}\n", []string{"session.dead_peer"}},
		{"size", "session: {max_transfer: huge}\n", []string{"session.max_transfer"}},
		{"transfer over the bound", "session: {max_transfer: 32MiB}\n", []string{"session.max_transfer"}},
		{"initiator", "login: {initiators: [abc]}\n", []string{"login.initiators"}},
		{"LUN out of range", "luns: [{lun: 16384}]\n", []string{"luns[0].lun (line 1)"}},
		{"LUN twice", "luns: [{lun: 1, name: a}, {lun: 1, name: b}]\n", []string{"luns: b"}},
		{"names that differ in case only", "luns: [{lun: 1, name: Disk01}, {lun: 2, name: disk01}]\n", []string{"luns: disk01"}},
		{"LUN key", "luns: [{lun: 1, name: a, path: /x}]\n", []string{"luns[0].path (line 1)"}},
		{"LUN key twice", "luns: [{lun: 1, lun: 2}]\n", []string{""}},
		{"plugin with a path", "luns: [{lun: 1, plugin: ../x}]\n", []string{"luns: lun1"}},
		{"auth plugin with a path", "auth: {plugin: a/b}\n", []string{"auth.plugin"}},
		{"settings of no plugin", "auth: {config: {list: /x}}\nioctx: {config: {credits: 4}}\n", []string{"auth.config", "ioctx.config"}},
		{"misspelled plugin setting", "auth:\n  plugins: auth\n", []string{"auth.plugins (line 2)"}},
		{"plugin setting that is a list", "ioctx:\n  plugin: x\n  config: {credits: [1]}\n", []string{"ioctx.config.credits (line 3)"}},
		{"plugin setting that is a mapping", "ioctx: {plugin: x, config: {a: {b: 1}}}\n", []string{"ioctx.config.a (line 1)"}},
		{"plugin setting twice", "auth: {plugin: x, config: {a: 1, a: 2}}\n", []string{""}},
		{"plugin settings no mapping", "auth: {plugin: x, config: list}\n", []string{"auth.config (line 1)"}},
		{"two who decide", "auth: {plugin: x}\nlogin: {initiators: [10.0.0.1]}\n", []string{"login.initiators"}},
		{"decision longer than a login", "auth: {timeout: 20s}\n", []string{"auth.timeout"}},
		{"call that ends before a restart", "plugin: {call_timeout: 30s}\n", []string{"plugin.call_timeout"}},
		{"process of another kind", "luns: [{lun: 1, process: mine}]\n", []string{"luns: lun1"}},
		{"small arena", "luns: [{lun: 1, arena: 1MiB}]\n", []string{"luns: lun1"}},
		{"LUNs no list", "luns: 5\n", []string{"luns (line 1)"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.yaml)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			for _, w := range c.want {
				found := false
				for _, p := range e.Problems {
					found = found || w == "" || p.Where == w
				}
				if !found {
					t.Errorf("no problem at %q in:\n%v", w, err)
				}
			}
		})
	}
}

func TestBadLUNFlagIsRefused(t *testing.T) {
	if _, err := load(t, "", "--lun", "lun=1,name"); err == nil || !strings.Contains(err.Error(), "--lun[0]") {
		t.Errorf("got %v", err)
	}
}

func TestMissingFileNamesIt(t *testing.T) {
	if _, err := Load("/nonexistent/srptd.yaml", nil); err == nil || !strings.Contains(err.Error(), "/nonexistent/srptd.yaml") {
		t.Errorf("got %v", err)
	}
}

func TestInitiatorsAreNormalised(t *testing.T) {
	c := mustLoad(t, "login: {initiators: ['0x1122:3344:5566:7788:0002:c903:00AA:bbcc', '11223344556677880002C90300AABBCC', '0002:C903:00aa:bbcc', '10.0.0.1']}")
	const want = "[11223344556677880002c90300aabbcc 11223344556677880002c90300aabbcc 0002:c903:00aa:bbcc 10.0.0.1]"
	if got := fmt.Sprint(c.Login.Initiators); got != want {
		t.Errorf("got %s", got)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("port: 5\nluns: [{lun: 1, name: a, config: {path: /x}}]")
	f.Add("auth: {plugin: a, config: {K: v, x: &x 1}}\nioctx: {config: [*x]}")
	f.Add("roce: {target_ack_delay: 3}\nluns: [[1]]")
	f.Add("? [a]\n: {b: 1}\n&x y: *x")
	f.Fuzz(func(t *testing.T, yaml string) {
		file := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Skip()
		}
		if c, err := Load(file, nil); (c == nil) == (err == nil) {
			t.Errorf("config %v with error %v", c, err)
		}
	})
}
