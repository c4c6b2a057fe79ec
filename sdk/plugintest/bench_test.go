package plugintest_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/plugintest"
)

func TestBenchMeasuresEveryJob(t *testing.T) {
	o := plugintest.Options{Path: filepath.Join(built, "backstore-file"), Config: map[string]string{"path": "{tmp}/disk", "size": "4MiB"}}
	var names []string
	err := plugintest.Bench(t.Context(), o, 20*time.Millisecond, func(f plugintest.Figures) {
		names = append(names, f.Name)
		if f.Requests < int64(f.Depth) || f.IOPS <= 0 || f.MiB <= 0 || f.P50 <= 0 || f.P50 > f.P99 || f.P999 > f.Max*1.01 {
			t.Errorf("%+v", f)
		}
	})
	if err != nil || len(names) != 8 {
		t.Errorf("%v, %v", names, err)
	}
}

func TestBenchTellsWhatFails(t *testing.T) {
	o := plugintest.Options{Path: filepath.Join(built, "testplugin"), Config: map[string]string{"path": "{tmp}/disk", "fail": "4"}}
	err := plugintest.Bench(t.Context(), o, time.Millisecond, func(plugintest.Figures) {})
	if err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("a store without space: %v", err)
	}
	o = plugintest.Options{Path: filepath.Join(built, "ioctx")}
	if err := plugintest.Bench(t.Context(), o, time.Millisecond, nil); err == nil || !strings.Contains(err.Error(), "ioctx") {
		t.Errorf("a plugin without data: %v", err)
	}
}
