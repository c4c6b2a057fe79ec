package host

import (
	"errors"
	"strings"
	"testing"

	"github.com/gosrpt/gosrpt/sdk/backstore"
	backstorepb "github.com/gosrpt/gosrpt/sdk/proto/backstore/v1"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

func TestHostileDescriptionIsAShortError(t *testing.T) {
	m := &pluginpb.Description{}
	for range 256 {
		m.Settings = append(m.Settings, &pluginpb.Setting{Key: "a", Kind: 1, Default: strings.Repeat("x", 2048)})
	}
	var s self
	err := s.learn(m)
	if err == nil || len(err.Error()) > 2*maxLine || s.known {
		t.Errorf("known %v, an error of %d bytes", s.known, len(err.Error()))
	}
}

func TestConfigurationIsHeldAgainstTheDescription(t *testing.T) {
	var s self
	if err := s.check(map[string]string{"anything": ""}); err != nil {
		t.Errorf("a plugin that does not say: %v", err)
	}
	if err := s.learn(&pluginpb.Description{Settings: []*pluginpb.Setting{{Key: "a", Kind: 1}}}); err != nil {
		t.Fatal(err)
	}
	var e *schema.Error
	if err := s.check(map[string]string{"a": "x"}); !errors.As(err, &e) {
		t.Errorf("%v", err)
	}
	if err := s.check(map[string]string{"a": "1"}); err != nil {
		t.Error(err)
	}
}

func TestPowersOfAnInfoAreChecked(t *testing.T) {
	good := func() *backstorepb.Info { return &backstorepb.Info{BlockSize: 512, Blocks: 8} }
	i, err := infoOf(good())
	if err != nil || i.UnmapGranularity != 512 || i.MaxCompareAndWrite != 512 || i.Powers != 0 {
		t.Errorf("%+v, %v", i, err)
	}
	m := good()
	m.Powers = ^uint32(0)
	if i, err := infoOf(m); err != nil || i.Powers != backstore.PowerSanitize<<1-1 {
		t.Errorf("powers that are not known: %v, %v", i.Powers, err)
	}
	for name, change := range map[string]func(*backstorepb.Info){
		"granularity below a block": func(i *backstorepb.Info) { i.UnmapGranularity = 256 },
		"odd granularity":           func(i *backstorepb.Info) { i.UnmapGranularity = 1536 },
		"part of a block":           func(i *backstorepb.Info) { i.MaxCompareAndWrite = 100 },
		"a huge compare":            func(i *backstorepb.Info) { i.MaxCompareAndWrite = 1 << 31 },
	} {
		m := good()
		change(m)
		if _, err := infoOf(m); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
