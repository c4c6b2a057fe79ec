package schemawire_test

import (
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gosrpt/gosrpt/sdk/internal/schemawire"
	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

type says schema.Description

func (s says) Describe() schema.Description { return schema.Description(s) }

var whole = schema.Description{
	Name: "test", Version: "1.2.0", Summary: "a test", Settings: schema.Schema{
		{Key: "path", Kind: schema.KindPath, Required: true, Help: "the file"},
		{Key: "depth", Kind: schema.KindNumber, Default: "32", Min: 1, Max: 4096},
		{Key: "engine", Kind: schema.KindChoice, Choices: []string{"a", "b"}, Default: "a", Secret: true},
	},
}

func TestDescriptionTravels(t *testing.T) {
	m, err := schemawire.Describe(says(whole))
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var got pluginpb.Description
	if err := proto.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	d, err := schemawire.Description(&got)
	if err != nil || !reflect.DeepEqual(d, whole) {
		t.Errorf("%v\n%+v\n%+v", err, d, whole)
	}
}

func TestWhatDoesNotDescribeItselfSaysNothing(t *testing.T) {
	if m, err := schemawire.Describe(t); m != nil || err != nil {
		t.Errorf("%v, %v", m, err)
	}
}

func TestSchemaThatCannotWorkIsAnErrorOfThePlugin(t *testing.T) {
	_, err := schemawire.Describe(says{Settings: schema.Schema{{Key: "twice"}, {Key: "twice"}}})
	if err == nil || !strings.Contains(err.Error(), "declared twice") {
		t.Error(err)
	}
}

func TestHostileDescriptionIsRefused(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	one := func(s *pluginpb.Setting) *pluginpb.Description {
		return &pluginpb.Description{Settings: []*pluginpb.Setting{s}}
	}
	for name, m := range map[string]*pluginpb.Description{
		"long name":        {Name: long},
		"long version":     {Version: long},
		"long summary":     {Summary: long},
		"lines":            {Summary: "good\nFAKE LOG LINE"},
		"terminal escapes": {Name: "\x1b[2J"},
		"not text":         {Name: "\xff"},
		"many settings":    {Settings: make([]*pluginpb.Setting, schemawire.MaxSettings+1)},
		"empty setting":    {Settings: make([]*pluginpb.Setting, 1)},
		"long key":         one(&pluginpb.Setting{Key: long}),
		"odd key":          one(&pluginpb.Setting{Key: "a b"}),
		"long help":        one(&pluginpb.Setting{Key: "a", Help: long}),
		"long default":     one(&pluginpb.Setting{Key: "a", Default: long}),
		"many choices":     one(&pluginpb.Setting{Key: "a", Choices: make([]string, schemawire.MaxChoices+1)}),
		"long choice":      one(&pluginpb.Setting{Key: "a", Choices: []string{long}}),
		"wrong default":    one(&pluginpb.Setting{Key: "a", Kind: 1, Default: "x"}),
	} {
		if d, err := schemawire.Description(m); err == nil {
			t.Errorf("%s: accepted: %+v", name, d)
		} else if len(err.Error()) > 8<<10 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

func TestKindThatIsNotKnownIsNotChecked(t *testing.T) {
	for _, kind := range []uint32{7, 256, ^uint32(0)} {
		d, err := schemawire.Description(&pluginpb.Description{Settings: []*pluginpb.Setting{{Key: "a", Kind: kind, Default: "anything"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Settings.Read(map[string]string{"a": "whatever"}); err != nil {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
}
