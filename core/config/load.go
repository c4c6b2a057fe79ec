package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// DefaultFile is read if no file is named and it is there.
const DefaultFile = "/etc/gosrpt/srptd.yaml"

// AddFlags defines a flag for every key, and --lun, --auth-config and --ioctx-config, on fs.
func AddFlags(fs *pflag.FlagSet) {
	for _, k := range Keys() {
		switch d := k.Default.(type) {
		case string:
			fs.String(k.Flag(), d, k.Help)
		case int:
			fs.Int(k.Flag(), d, k.Help)
		case bool:
			fs.Bool(k.Flag(), d, k.Help)
		case []string:
			fs.StringSlice(k.Flag(), d, k.Help)
		}
	}
	addConfigFlags(fs)
	fs.StringArray("lun", nil, "a LUN as lun=0,name=disk0,plugin=backstore-file,path=/disk,size=1GiB; repeatable, replaces the file's list")
}

// Load reads the configuration. file may be empty: then DefaultFile is read if it exists. Flags that
// were set on fs, made by AddFlags, win; fs may be nil. Every problem found is in the *Error
// returned.
func Load(file string, fs *pflag.FlagSet) (*Config, error) {
	raw, file, err := readFile(file)
	if err != nil {
		return nil, &Error{File: file, Problems: []Problem{{"file", err.Error()}}}
	}
	v, err := bind(raw, fs)
	if err != nil {
		return nil, &Error{File: file, Problems: []Problem{{"file", err.Error()}}}
	}
	var p problems
	written := checkFile(raw, &p)
	items := written.luns
	if given := arrayFlag(fs, "lun"); len(given) > 0 {
		items = parseLUNSpecs("--lun", given, &p)
	} else if env := os.Getenv("GOSRPT_LUNS"); env != "" {
		items = parseLUNSpecs("GOSRPT_LUNS", strings.Split(env, ";"), &p)
	}
	c := decode(v, &p)
	c.File = file
	c.LUNs = decodeLUNs(items, &p)
	c.Auth.Config = pluginConfig("auth.config", written.configs["auth.config"], fs, &p)
	c.IOCtx.Config = pluginConfig("ioctx.config", written.configs["ioctx.config"], fs, &p)
	c.validate(&p)
	if len(p) > 0 {
		return nil, &Error{File: file, Problems: p}
	}
	return c, nil
}

func readFile(file string) (raw []byte, name string, err error) {
	if file != "" {
		raw, err = os.ReadFile(file)
		return raw, file, err
	}
	raw, err = os.ReadFile(DefaultFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	return raw, DefaultFile, err
}

// bind makes the viper instance: every key has a default, an environment variable and, if fs is given, a flag.
func bind(raw []byte, fs *pflag.FlagSet) (*viper.Viper, error) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(bytes.NewReader(quoteIdentifiers(raw))); err != nil {
		return nil, err
	}
	for _, k := range Keys() {
		v.SetDefault(k.Name, k.Default)
		if err := v.BindEnv(k.Name, k.Env()); err != nil {
			return nil, err
		}
		if fs == nil {
			continue
		}
		if err := v.BindPFlag(k.Name, fs.Lookup(k.Flag())); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func arrayFlag(fs *pflag.FlagSet, name string) []string {
	if fs == nil || !fs.Changed(name) {
		return nil
	}
	given, err := fs.GetStringArray(name)
	if err != nil {
		return nil
	}
	return given
}

// defaultGUID is a locally administered EUI-64 that stays the same on this machine: derived from its
// machine id, else from its host name.
func defaultGUID() (uint64, error) {
	seed, err := os.ReadFile("/etc/machine-id")
	if err != nil || len(strings.TrimSpace(string(seed))) == 0 {
		name, err := os.Hostname()
		if err != nil {
			return 0, fmt.Errorf("no machine id and no host name to derive it from: %w", err)
		}
		seed = []byte(name)
	}
	sum := sha256.Sum256(append([]byte("gosrpt ioc guid "), seed...))
	guid := binary.BigEndian.Uint64(sum[:8])
	// Local bit set, group bit clear (IEEE EUI-64). The top byte is also never 02h alone, the range
	// that Linux reserves for service ids of its own.
	return guid&^(0x03<<56) | 0x12<<56, nil
}
