package plugintest_test

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/auth"
	"github.com/gosrpt/gosrpt/sdk/conformance"
	"github.com/gosrpt/gosrpt/sdk/plugintest"
)

func bare(faults ...string) plugintest.Options {
	return plugintest.Options{Path: filepath.Join(built, "testbare"), Args: faults, Config: map[string]string{"path": "{tmp}/disk"}}
}

// TestPluginWithoutTheSDKPasses: what is written to the protocol alone passes, and every check has something to ask.
func TestPluginWithoutTheSDKPasses(t *testing.T) {
	passes(t, check(t, bare()), "FUA")
}

// faults are what a plugin can do wrong, and the check that must find it.
var faults = map[string]string{
	"waits":       "process: started by hand it says so and exits",
	"noisy":       "process: the handshake is all that stdout carries",
	"unhealthy":   "process: its health service answers",
	"fickle":      "process: describing itself has no effect and the same answer",
	"undeclared":  "process: the declared settings are in order",
	"modest":      "process: a required setting that is missing is named",
	"lax":         "process: a value that a setting cannot have is refused by name",
	"open-minded": "process: a setting that is unknown is refused by name",
	"mortal":      "process: SIGTERM and SIGINT do not end it",
	"stubborn":    "process: Shutdown ends it in order within 10 s",
	"failing":     "process: Shutdown ends it in order within 10 s",
	"deaf":        "process: the end of the host ends it within 10 s",
	"sloppy":      "ring: every place can be written and read/calls",
	"double":      "ring: every place can be written and read/calls",
	"unfenced":    "process: a store that another process has is not opened",
	"amnesiac":    "process: after kill -9 the store can be opened again",
	"forgetful":   "process: what was flushed is there after kill -9",
	"clinging":    "process: a queue lets go of its data while requests are under way",
	"holding":     "process: a queue lets go of its data while requests are under way",
	"leaky":       "process: opening and closing a hundred times leaves nothing behind",
	"roomy":       "ring: requests outside the store are answered out of range",
	"careless":    "ring: an entry that no host writes ends the ring, is told in Health, and hurts nothing else",
	"silent":      "ring: an entry that no host writes ends the ring, is told in Health, and hurts nothing else",
	"trusting":    "ring: a queue whose memory is no ring is refused",
}

// slow are the faults that take a check all of its patience to find.
var slow = []string{"waits", "stubborn", "deaf", "holding", "careless", "silent"}

func TestEachFaultIsFoundByItsCheck(t *testing.T) {
	for name, find := range faults {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && slices.Contains(slow, name) {
				t.Skip("it waits for ten seconds")
			}
			t.Parallel()
			o := bare(name)
			o.Match = regexp.MustCompile("^" + regexp.QuoteMeta(find) + "$")
			if r := check(t, o)[find]; r.Status != conformance.Failed {
				t.Errorf("%q: %+v", find, r)
			}
		})
	}
}

// TestOtherChecksFindTheirFaults: faults that need another plugin.
func TestOtherChecksFindTheirFaults(t *testing.T) {
	hangs := plugintest.Options{
		Path: filepath.Join(built, "testplugin"), Config: map[string]string{"path": "{tmp}/disk", "blocks": "8192", "fail": "1"},
		Match: regexp.MustCompile("interrupted are answered|every place can be written and read/calls"),
	}
	for name, r := range check(t, hangs) {
		if r.Status != conformance.Failed {
			t.Errorf("a store whose requests all fail: %s: %s", name, r.Status)
		}
	}
}

func TestHangingStoreIsEndedAtTheLimit(t *testing.T) {
	o := plugintest.Options{
		Path: filepath.Join(built, "testplugin"), Limit: 2 * time.Second,
		Config: map[string]string{"path": "{tmp}/disk", "blocks": "8192", "delay": "1h"},
		Match:  regexp.MustCompile("^ring: (every place can be written and read/calls|geometry)"),
	}
	for name, r := range check(t, o) {
		want := conformance.Passed
		if strings.Contains(name, "every place") {
			want = conformance.Failed
		}
		if r.Status != want || r.Seconds > 60 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestWhatIsNoPluginCannotBeStarted(t *testing.T) {
	for _, path := range []string{"/bin/true", "/no/such/file"} {
		_, err := plugintest.Run(t.Context(), plugintest.Options{Path: path})
		var start *plugintest.StartError
		if !errors.As(err, &start) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestControlPluginThatStaysOpenIsFound: its file says that it is open, for ever after kill -9.
func TestControlPluginThatStaysOpenIsFound(t *testing.T) {
	o := plugintest.Options{
		Path: filepath.Join(built, "testcontrol"), Args: []string{"ioctx"}, Config: map[string]string{"once": "{tmp}/open"},
		Match: regexp.MustCompile("again after kill"),
	}
	for name, r := range check(t, o) {
		if r.Status != conformance.Failed {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestWrongAuthoriserIsFound(t *testing.T) {
	o := plugintest.Options{
		Path:   filepath.Join(built, "auth"),
		Config: map[string]string{"list": "{tmp}/list.yaml"}, Prepare: "echo 'hosts: []' > {tmp}/list.yaml",
		Allowed: auth.Login{Initiator: auth.ID{1}}, Match: regexp.MustCompile("who is permitted"),
	}
	for name, r := range check(t, o) {
		if r.Status != conformance.Failed {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
