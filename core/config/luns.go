package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// item is a LUN as written: every value is text, and where says where it stands.
type item struct {
	where  string
	fields []field
}

type field struct {
	where, key, value string
	// sub is the plugin's configuration, if key is "config".
	sub []field
}

// written is what the file says beside scalar settings.
type written struct {
	luns    []item
	configs map[string][]field // by key
}

// checkFile reports every key of the file that does not exist, with its line, and returns the LUNs and the plugins'
// configurations as written, letter case kept.
func checkFile(raw []byte, p *problems) (w written) {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil || len(doc.Content) == 0 {
		return w // viper has reported the syntax
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		p.add(line(top), "the file must hold a mapping of settings")
		return w
	}
	c := checker{known: map[string]bool{}, configs: map[string][]field{}, p: p}
	for _, k := range Keys() {
		c.known[k.Name] = true
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, val := top.Content[i], top.Content[i+1]
		if key.Value == "luns" {
			w.luns = lunNodes(val, p)
			continue
		}
		c.check(key.Value, key, val)
	}
	w.configs = c.configs
	return w
}

// checker looks at the keys of a file.
type checker struct {
	known   map[string]bool
	configs map[string][]field
	p       *problems
}

func (c *checker) check(path string, key, val *yaml.Node) {
	if c.known[path] {
		return
	}
	if slices.Contains(configured, path) {
		c.configs[path] = append(c.configs[path], configNode(path, val, c.p)...)
		return
	}
	isGroup := false
	for k := range c.known {
		isGroup = isGroup || strings.HasPrefix(k, path+".")
	}
	if !isGroup || val.Kind != yaml.MappingNode {
		c.p.add(path+" ("+line(key)+")", "no such setting")
		return
	}
	for i := 0; i+1 < len(val.Content); i += 2 {
		c.check(path+"."+val.Content[i].Value, val.Content[i], val.Content[i+1])
	}
}

func line(n *yaml.Node) string { return fmt.Sprintf("line %d", n.Line) }

func lunNodes(list *yaml.Node, p *problems) []item {
	if list.Kind != yaml.SequenceNode {
		p.add("luns ("+line(list)+")", "must be a list")
		return nil
	}
	var items []item
	for i, n := range list.Content {
		where := fmt.Sprintf("luns[%d]", i)
		if n.Kind != yaml.MappingNode {
			p.add(where+" ("+line(n)+")", "must be a mapping with lun, name, plugin and config")
			continue
		}
		items = append(items, item{where: where + " (" + line(n) + ")", fields: fields(where, n, p)})
	}
	return items
}

func fields(where string, n *yaml.Node, p *problems) []field {
	var out []field
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		f := field{where: fmt.Sprintf("%s.%s (%s)", where, k.Value, line(k)), key: k.Value, value: v.Value}
		switch {
		case v.Kind == yaml.MappingNode:
			f.sub = fields(where+"."+k.Value, v, p)
		case v.Kind != yaml.ScalarNode:
			p.add(f.where, "must be a single value")
		}
		out = append(out, f)
	}
	return out
}

// parseLUNSpecs parses the short form lun=0,name=x,plugin=y,key=value; keys that are not a LUN's own are the plugin's.
func parseLUNSpecs(from string, specs []string, p *problems) []item {
	var items []item
	for i, s := range specs {
		where := fmt.Sprintf("%s[%d]", from, i)
		it := item{where: where}
		conf := field{where: where, key: "config", sub: []field{}}
		for _, f := range pairs(where, s, p) {
			if isLUNKey(f.key) {
				it.fields = append(it.fields, f)
			} else {
				conf.sub = append(conf.sub, f)
			}
		}
		it.fields = append(it.fields, conf)
		items = append(items, it)
	}
	return items
}

func isLUNKey(k string) bool {
	switch k {
	case "lun", "name", "plugin", "process", "serial", "read_only", "arena":
		return true
	}
	return false
}

func decodeLUNs(items []item, p *problems) []LUN {
	var out []LUN
	for i, it := range items {
		l := LUN{LUN: uint16(i), Plugin: "backstore-file", Process: ProcessOwn, Config: map[string]string{}}
		seen := map[string]bool{}
		for _, f := range it.fields {
			if seen[f.key] {
				p.add(f.where, "is set twice")
			}
			seen[f.key] = true
			l.set(f, p)
		}
		if l.Name == "" {
			l.Name = fmt.Sprintf("lun%d", l.LUN)
		}
		out = append(out, l)
	}
	return out
}

func (l *LUN) set(f field, p *problems) {
	var err error
	switch f.key {
	case "lun":
		var n uint64
		n, err = strconv.ParseUint(f.value, 10, 14)
		l.LUN = uint16(n)
	case "name":
		l.Name = f.value
	case "plugin":
		l.Plugin = f.value
	case "process":
		l.Process = f.value
	case "serial":
		l.Serial = f.value
	case "read_only":
		l.ReadOnly, err = strconv.ParseBool(f.value)
	case "arena":
		l.Arena = parseSize(f.where, f.value, p)
	case "config":
		putAll(l.Config, f.sub, p)
	default:
		p.add(f.where, "a LUN has no such setting; a plugin's own settings go under config")
	}
	if err != nil {
		p.add(f.where, "%q: %v", f.value, err)
	}
}
