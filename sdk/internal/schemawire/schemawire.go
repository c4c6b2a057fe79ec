// Package schemawire turns what a plugin says about itself into its message and back, for both sides. What is received is
// checked: a plugin may be hostile, and a program's description of itself may be wrong.
package schemawire

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	pluginpb "github.com/gosrpt/gosrpt/sdk/proto/plugin/v1"
	"github.com/gosrpt/gosrpt/sdk/schema"
)

// What a description may have at most.
const (
	MaxSettings = 256
	MaxChoices  = 256
	// maxWord and maxLine bound texts, in bytes.
	maxWord = 128
	maxLine = 2048
)

// Describe asks v, if it can tell, what it is. It returns nil if it cannot, and an error if what it says cannot be used.
func Describe(v any) (*pluginpb.Description, error) {
	d, ok := v.(schema.Describer)
	if !ok {
		return nil, nil
	}
	m := message(d.Describe())
	if _, err := Description(m); err != nil {
		return nil, fmt.Errorf("the plugin's own description of itself cannot be used: %w", err)
	}
	return m, nil
}

func message(d schema.Description) *pluginpb.Description {
	m := &pluginpb.Description{Name: d.Name, Version: d.Version, Summary: d.Summary}
	for i := range d.Settings {
		s := &d.Settings[i]
		m.Settings = append(m.Settings, &pluginpb.Setting{
			Key: s.Key, Kind: uint32(s.Kind), Help: s.Help, Default: s.Default, Required: s.Required,
			Choices: s.Choices, Min: s.Min, Max: s.Max, Secret: s.Secret,
		})
	}
	return m
}

// Description checks a message and returns what it says.
func Description(m *pluginpb.Description) (schema.Description, error) {
	d := schema.Description{Name: m.GetName(), Version: m.GetVersion(), Summary: m.GetSummary()}
	var c checker
	c.text("its name", d.Name, maxWord)
	c.text("its version", d.Version, maxWord)
	c.text("its summary", d.Summary, maxLine)
	c.count("settings", len(m.GetSettings()), MaxSettings)
	if c.err != nil {
		return schema.Description{}, c.err
	}
	for _, s := range m.GetSettings() {
		d.Settings = append(d.Settings, c.setting(s))
	}
	if c.err == nil {
		c.err = d.Settings.Check()
	}
	if c.err != nil {
		return schema.Description{}, c.err
	}
	return d, nil
}

// checker keeps the first thing that is wrong.
type checker struct{ err error }

func (c *checker) setting(s *pluginpb.Setting) schema.Setting {
	c.text("the key of a setting", s.GetKey(), maxWord)
	if c.err != nil {
		return schema.Setting{}
	}
	of := " of the setting " + s.GetKey()
	c.text("the help"+of, s.GetHelp(), maxLine)
	c.text("the default"+of, s.GetDefault(), maxLine)
	c.count("choices"+of, len(s.GetChoices()), MaxChoices)
	for _, choice := range s.GetChoices() {
		c.text("a choice"+of, choice, maxWord)
	}
	return schema.Setting{
		Key: s.GetKey(), Kind: schema.Kind(min(s.GetKind(), math.MaxUint8)), Help: s.GetHelp(), Default: s.GetDefault(),
		Required: s.GetRequired(), Choices: s.GetChoices(), Min: s.GetMin(), Max: s.GetMax(), Secret: s.GetSecret(),
	}
}

func (c *checker) text(what, s string, most int) {
	switch {
	case c.err != nil:
	case len(s) > most:
		c.err = fmt.Errorf("%s has %d bytes, %d at most can be", what, len(s), most)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		c.err = fmt.Errorf("%s is not one line of text: %q", what, s)
	}
}

func (c *checker) count(what string, n, most int) {
	if c.err == nil && n > most {
		c.err = fmt.Errorf("%d %s, %d at most can be", n, what, most)
	}
}
