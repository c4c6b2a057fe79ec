package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestIdentifiersKeepTheirDigitsHoweverTheyAreWritten(t *testing.T) {
	for text, want := range map[string]uint64{
		"0011223344556677": 0x0011223344556677, "0x0011223344556677": 0x0011223344556677, "1122334455667788": 0x1122334455667788,
		"12345678901234e5": 0x12345678901234e5, "'0011223344556677'": 0x0011223344556677, "0011:2233:4455:6677": 0x0011223344556677,
	} {
		c := mustLoad(t, "target: {id_ext: "+text+", ioc_guid: "+text+"}\nlogin: {initiators: [0011223344556677, 12345678901234e5]}\n")
		if c.Target != (Target{want, want}) {
			t.Errorf("%s: %x, want %x", text, c.Target, want)
		}
		if l := c.Login.Initiators; len(l) != 2 || l[0] != "0011:2233:4455:6677" || l[1] != "1234:5678:9012:34e5" {
			t.Errorf("initiators: %q", l)
		}
	}
	if c := mustLoad(t, "target: {id_ext: , ioc_guid: ~}\n"); c.Target.IOCGUID == 0 || c.Target.IDExt != c.Target.IOCGUID {
		t.Errorf("identifiers that are not given: %x", c.Target)
	}
}

func TestWhatIsWrittenReadsBackTheSame(t *testing.T) {
	c := mustLoad(t, "target: {id_ext: 0000000000000001, ioc_guid: 1e00000000000002}\nlisten: [10.0.0.1]\n"+
		"luns: [{lun: 1, name: a, config: {path: /x}}]\n")
	first, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(file, first, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := yaml.Marshal(again)
	if err != nil || string(first) != string(second) {
		t.Errorf("%v\n%s\n%s", err, first, second)
	}
	b, err := json.Marshal(c.Target)
	if want := `{"id_ext":"0000000000000001","ioc_guid":"1e00000000000002"}`; err != nil || string(b) != want {
		t.Errorf("JSON %s, %v; want %s", b, err, want)
	}
}
