package static

import (
	"strings"
	"testing"
	"time"

	"github.com/gosrpt/gosrpt/sdk/ioctx"
	"github.com/gosrpt/gosrpt/sdk/ioctx/ioctxtest"
)

func situation() ioctx.Situation {
	return ioctx.Situation{Default: ioctx.Plan{Credits: 128, Unsolicited: 4, Responses: 192, SendWork: 512, MaxRequestIU: 8276,
		MaxResponseIU: 512, MaxImmediateOffset: 512, MaxTransfer: 16 << 20, ArenaSize: 64 << 20, MaxWait: 10 * time.Second,
		SharedReceives: 300}}
}

func TestKit(t *testing.T) {
	for name, config := range map[string]map[string]string{
		"nothing set": nil,
		"all set": {"policy": "static", "credits": "64", "unsolicited": "2", "responses": "64", "send_work": "256", "max_request_iu": "8KiB",
			"max_response_iu": "64", "max_immediate_offset": "80", "max_transfer": "4KiB", "arena_size": "8MiB", "max_wait": "5s"},
	} {
		t.Run(name, func(t *testing.T) {
			ioctxtest.Test(t, ioctxtest.Subject{Opener: Opener{}, Config: func(testing.TB) map[string]string { return config }})
		})
	}
}

func TestNumbersThatAreSetReplaceTheTargetsOwn(t *testing.T) {
	own := situation().Default
	for name, c := range map[string]struct {
		config map[string]string
		change func(*ioctx.Plan)
	}{
		"nothing":      {nil, func(*ioctx.Plan) {}},
		"policy":       {map[string]string{"policy": "static"}, func(*ioctx.Plan) {}},
		"few credits":  {map[string]string{"credits": "32"}, func(p *ioctx.Plan) { p.Credits, p.Responses = 32, 48 }},
		"many credits": {map[string]string{"credits": "1000"}, func(p *ioctx.Plan) { p.Credits, p.Responses, p.SendWork = 1000, 1500, 4000 }},
		"both": {map[string]string{"credits": "1000", "responses": "1001", "send_work": "99"},
			func(p *ioctx.Plan) { p.Credits, p.Responses, p.SendWork = 1000, 1001, 99 }},
		"shared":     {map[string]string{"shared_receives": "4096"}, func(p *ioctx.Plan) { p.SharedReceives = 4096 }},
		"not shared": {map[string]string{"shared_receives": "0"}, func(p *ioctx.Plan) { p.SharedReceives = 0 }},
		"the rest": {map[string]string{"unsolicited": "9", "max_request_iu": "4096", "max_response_iu": "256 B", "max_immediate_offset": "100",
			"max_transfer": "1MiB", "arena_size": "1GiB", "max_wait": "250ms"},
			func(p *ioctx.Plan) {
				p.Unsolicited, p.MaxRequestIU, p.MaxResponseIU, p.MaxImmediateOffset = 9, 4096, 256, 100
				p.MaxTransfer, p.ArenaSize, p.MaxWait = 1<<20, 1<<30, 250*time.Millisecond
			}},
	} {
		want := own
		c.change(&want)
		p, err := Opener{}.Open(t.Context(), c.config)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := p.Plan(t.Context(), situation()); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
}

func TestResponsesDoNotGrowWhileTheTargetRuns(t *testing.T) {
	p, err := Opener{}.Open(t.Context(), map[string]string{"max_response_iu": "1024"})
	if err != nil {
		t.Fatal(err)
	}
	s := situation()
	s.InForce = s.Default
	if got, err := p.Plan(t.Context(), s); err != nil || got.MaxResponseIU != 512 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNumbersThatDoNotGoTogetherAreNamed(t *testing.T) {
	for want, config := range map[string]map[string]string{
		"responses": {"credits": "100", "responses": "99"},
		"credits":   {"credits": "5000"},
		"arena":     {"arena_size": "1MiB"},
		"max_wait":  {"max_wait": "2h"},
		"shared":    {"shared_receives": "15"},
	} {
		p, err := Opener{}.Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Plan(t.Context(), situation()); ioctx.CodeOf(err) != ioctx.CodeConfig || !strings.Contains(err.Error(), want) || got != (ioctx.Plan{}) {
			t.Errorf("%v: %+v, %v", config, got, err)
		}
	}
}

func TestSettingThatCannotBeReadIsNamed(t *testing.T) {
	for key, values := range map[string][]string{
		"policy": {"elastic", ""}, "credits": {"", "-1", "0", "many", "99999999999"}, "unsolicited": {"x"}, "shared_receives": {"-1", "all"}, "responses": {"1.5"}, "send_work": {"0"},
		"max_request_iu": {"5GiB", "0"}, "max_response_iu": {"1 parsec"}, "max_immediate_offset": {"-1"}, "max_transfer": {"0"}, "arena_size": {""},
		"max_wait": {"10", "-1s", "0s"}, "colour": {"red"},
	} {
		for _, v := range values {
			if p, err := (Opener{}).Open(t.Context(), map[string]string{key: v}); ioctx.CodeOf(err) != ioctx.CodeConfig || !strings.Contains(err.Error(), key+": ") {
				t.Errorf("%s=%q: %v, %v", key, v, p, err)
			}
		}
	}
	if err := (Opener{}).Describe().Settings.Check(); err != nil {
		t.Error(err)
	}
}
