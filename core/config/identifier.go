package config

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// texts are the two halves as they are written, by key.
func (t Target) texts() map[string]string {
	return map[string]string{"id_ext": fmt.Sprintf("%016x", t.IDExt), "ioc_guid": fmt.Sprintf("%016x", t.IOCGUID)}
}

// MarshalYAML writes the halves as 16 hex digits each, as they are read.
func (t Target) MarshalYAML() (any, error) { return t.texts(), nil }

// MarshalJSON writes the same.
func (t Target) MarshalJSON() ([]byte, error) { return json.Marshal(t.texts()) }

// identifiers are the settings whose values are hexadecimal digits. To YAML some of them are numbers: 0011223344556677 is
// octal, 12345678901234e5 has an exponent.
var identifiers = []string{"target.id_ext", "target.ioc_guid", "login.initiators"}

// quoteIdentifiers makes texts of the identifiers in the file, so that their digits stay what they are. A file that is not
// YAML stays as it is, for others to complain.
func quoteIdentifiers(raw []byte) []byte {
	var doc yaml.Node
	if yaml.Unmarshal(raw, &doc) != nil || len(doc.Content) == 0 {
		return raw
	}
	known := map[string]bool{}
	for _, k := range identifiers {
		known[k] = true
	}
	eachSetting("", doc.Content[0], func(path string, val *yaml.Node) {
		if known[path] {
			quote(val)
		}
	})
	out, err := yaml.Marshal(&doc)
	if err != nil {
		return raw
	}
	return out
}

// eachSetting visits the settings of two levels of mappings.
func eachSetting(prefix string, n *yaml.Node, visit func(path string, val *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		path, val := prefix+n.Content[i].Value, n.Content[i+1]
		visit(path, val)
		if prefix == "" {
			eachSetting(path+".", val, visit)
		}
	}
}

// quote makes texts of a number, or of those in a list.
func quote(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		n.SetString(n.Value)
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			quote(item)
		}
	}
}
