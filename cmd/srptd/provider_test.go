package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
	"github.com/gosrpt/gosrpt/core/config"
)

func TestProviderThatIsNotBuiltInIsRefusedWithTheWayToBuildIt(t *testing.T) {
	_, err := newProvider(&config.Config{Provider: "other"}, hclog.NewNullLogger())
	var usage usageError
	if !errors.As(err, &usage) || !strings.Contains(err.Error(), "go build -tags other") {
		t.Errorf("error %v", err)
	}
}

func TestEveryProviderThatIsBuiltInIsMadeUnderItsName(t *testing.T) {
	for name := range makers() {
		p, err := newProvider(&config.Config{Provider: name}, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		if p.Name() != name {
			t.Errorf("provider %q is called %q", name, p.Name())
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if v := built.Own("").String(); !strings.Contains(v, name) {
			t.Errorf("version %q does not name %s", v, name)
		}
	}
}
