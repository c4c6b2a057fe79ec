package lab

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestSourcesAreTheHostsOfTheSameRelease(t *testing.T) {
	const targets = `http://mirror.example/debian bookworm
http://mirror.example/debian bookworm
http://mirror.example/debian bookworm-updates
http://mirror.example/debian trixie
http://mirror.example/debian-security bookworm-security
http://vendor.example/tools bookworm
`
	want := []string{
		"http://mirror.example/debian bookworm main",
		"http://mirror.example/debian bookworm-updates main",
		"http://mirror.example/debian-security bookworm-security main",
	}
	var got []string
	for line := range strings.Lines(releaseSources(targets)) {
		_, source, _ := strings.Cut(strings.TrimSpace(line), "] ")
		got = append(got, source)
	}
	if !slices.Equal(got, want) {
		t.Errorf("sources %q, want %q", got, want)
	}
	if got := releaseSources("http://mirror.example/ubuntu noble\n"); got != "" {
		t.Errorf("sources of another system: %q", got)
	}
}

func TestOnlyMissingHostPackagesAreInstalled(t *testing.T) {
	look := func(command string) (string, error) {
		if command == "xz" || command == "depmod" {
			return "", errors.New("not found")
		}
		return "/usr/bin/" + command, nil
	}
	if got := missingPackages(look); !slices.Equal(got, []string{"kmod", "xz-utils"}) {
		t.Errorf("missing %v", got)
	}
}
