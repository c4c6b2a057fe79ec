package backstoretest_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	"github.com/gosrpt/gosrpt/sdk/backstore/backstoretest"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// described is a backstore with settings: the name that a store has, and how large its blocks are.
type described struct {
	settings schema.Schema
	lax      bool   // it does without a name
	bs       string // what no block size means, if not 512
}

func (d described) Describe() schema.Description {
	return schema.Description{Name: "memory", Version: "1.0.0", Summary: "in memory", Settings: d.settings}
}

func (d described) Open(_ context.Context, config map[string]string) (backstore.Store, error) {
	settings := settings()
	settings[0].Required = !d.lax
	if config["block_size"] == "" && d.bs != "" {
		config = map[string]string{"name": config["name"], "block_size": d.bs}
	}
	v, err := settings.Read(config)
	if err != nil {
		return nil, err
	}
	bs := uint32(v.Number("block_size"))
	return backstoretest.NewMemory(backstore.Info{BlockSize: bs, Blocks: 4 << 20 / uint64(bs)}), nil
}

func settings() schema.Schema {
	return schema.Schema{
		{Key: "name", Required: true, Help: "what it is called"},
		{Key: "block_size", Kind: schema.KindNumber, Default: "512", Help: "in bytes"},
	}
}

func describedSubject(d described) backstoretest.Subject {
	return backstoretest.Subject{
		Backstore: d, Volatile: true,
		Config: func(testing.TB) map[string]string { return map[string]string{"name": "a"} },
	}
}

func TestDescribedMemoryPasses(t *testing.T) {
	backstoretest.Test(t, describedSubject(described{settings: settings()}))
}

func changed(f func(schema.Schema)) schema.Schema {
	s := settings()
	f(s)
	return s
}

// misdescribed are backstores that are not what they say, and the check that must find it.
var misdescribed = map[string]struct {
	described
	find string
}{
	"twice":     {described{settings: append(settings(), schema.Setting{Key: "name", Help: "again"})}, "the_description"},
	"helpless":  {described{settings: changed(func(s schema.Schema) { s[1].Help = "" })}, "the_description"},
	"refusing":  {described{settings: settings()[1:]}, "the_description"},
	"lax":       {described{settings: settings(), lax: true}, "a_setting_that_is_required"},
	"different": {described{settings: settings(), bs: "4096"}, "a_default"},
}

// TestKitFindsBackstoresThatAreNotWhatTheySay runs the kit on each in a process of its own, where it must fail.
func TestKitFindsBackstoresThatAreNotWhatTheySay(t *testing.T) {
	if name := os.Getenv("BACKSTORETEST_MISDESCRIBED"); name != "" {
		backstoretest.Test(t, describedSubject(misdescribed[name].described))
		return
	}
	for name, b := range misdescribed {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestKitFindsBackstoresThatAreNotWhatTheySay$")
			cmd.Env = append(os.Environ(), "BACKSTORETEST_MISDESCRIBED="+name)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "FAIL: TestKitFindsBackstoresThatAreNotWhatTheySay/"+b.find) {
				t.Errorf("the check %q did not find it: %v\n%s", b.find, err, out)
			}
		})
	}
}
