package schema_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/schema"
)

var all = schema.Schema{
	{Key: "path", Kind: schema.KindPath, Required: true, Help: "the file"},
	{Key: "size", Kind: schema.KindSize, Default: "1MiB", Min: 4096, Max: 1 << 40},
	{Key: "depth", Kind: schema.KindNumber, Default: "32", Min: 1, Max: 4096},
	{Key: "sync", Kind: schema.KindBool},
	{Key: "wait", Kind: schema.KindDuration, Default: "5s"},
	{Key: "engine", Kind: schema.KindChoice, Choices: []string{"uring", "pread"}, Default: "uring"},
	{Key: "token", Kind: schema.KindNumber, Secret: true},
	{Key: "name"},
}

func TestValuesAreWhatWasWrittenOrTheDefault(t *testing.T) {
	v, err := all.Read(map[string]string{"path": "/x", "size": "2 GiB", "sync": "true"})
	if err != nil {
		t.Fatal(err)
	}
	if v.Text("path") != "/x" || v.Size("size") != 2<<30 || v.Number("depth") != 32 || !v.Bool("sync") ||
		v.Duration("wait") != 5*time.Second || v.Text("engine") != "uring" || v.Text("name") != "" {
		t.Errorf("%+v", v)
	}
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	_, err := all.Read(map[string]string{"size": "1", "depth": "many", "sync": "maybe", "wait": "-1s",
		"engine": "steam", "token": "hunter2", "nmae": "x"})
	var e *schema.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	want := []string{
		`depth: "many" is not a whole number`,
		`engine: "steam" is none of uring, pread`,
		`nmae: no such setting; there are path, size, depth, sync, wait, engine, token, name`,
		`path: must be set: the file`,
		`size: "1" is not in 4096..1099511627776`,
		`sync: "maybe" is neither true nor false`,
		`token: the value is not a whole number`,
		`wait: "-1s" is not a duration such as 30s`,
	}
	if len(e.Problems) != len(want) {
		t.Fatalf("%q", e.Problems)
	}
	for i := range want {
		if e.Problems[i] != want[i] {
			t.Errorf("%q, want %q", e.Problems[i], want[i])
		}
	}
}

func TestSizesAreParsedWithoutOverflow(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "512": 512, "4KiB": 4096, "4 KiB": 4096, "1kB": 1000, "1KB": 1000, "3MB": 3e6, "8TiB": 8 << 40,
		"9223372036854775807": math.MaxInt64, "5B": 5,
	} {
		if got, ok := schema.ParseSize(in); !ok || got != want {
			t.Errorf("%q is %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "-1", "MiB", "1.5MiB", "1XB", "9223372036854775808", "9000000TiB", "1MiBMiB", "0x10", "1 M iB"} {
		if got, ok := schema.ParseSize(in); ok {
			t.Errorf("%q is %d", in, got)
		}
	}
}

func TestSchemaThatCannotWorkIsRefused(t *testing.T) {
	if err := all.Check(); err != nil {
		t.Error(err)
	}
	for name, s := range map[string]schema.Schema{
		"no key":           {{}},
		"key in capitals":  {{Key: "Path"}},
		"declared twice":   {{Key: "a"}, {Key: "a"}},
		"no choices":       {{Key: "a", Kind: schema.KindChoice}},
		"wrong default":    {{Key: "a", Kind: schema.KindNumber, Default: "x"}},
		"required default": {{Key: "a", Required: true, Default: "x"}},
		"bounds":           {{Key: "a", Kind: schema.KindNumber, Min: 2, Max: 1}},
	} {
		if s.Check() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}

func TestKeyThatIsNotInTheSchemaIsAMistakeOfTheProgram(t *testing.T) {
	v, _ := all.Read(map[string]string{"path": "/x"})
	for name, ask := range map[string]func(){
		"unknown": func() { v.Text("nothing") }, "of another kind": func() { v.Number("path") },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			ask()
		})
	}
}
