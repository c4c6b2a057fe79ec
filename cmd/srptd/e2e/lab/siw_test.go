package lab

import (
	"slices"
	"testing"
)

func TestModuleIsBuiltWithThePackagesOfTheGuestsKernel(t *testing.T) {
	headers, source, err := buildPackages("6.1.0-57-amd64")
	want := []string{"linux-headers-6.1.0-57-amd64", "linux-headers-6.1.0-57-common", "linux-kbuild-6.1"}
	if err != nil || !slices.Equal(headers, want) || !slices.Equal(source, []string{"linux-source-6.1"}) {
		t.Errorf("%q and %q, %v", headers, source, err)
	}
	if _, _, err := buildPackages("6"); err == nil {
		t.Error("a version without a series has packages")
	}
}
