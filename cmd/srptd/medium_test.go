package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gosrpt/gosrpt/core/scsi"
)

// TestGrownFileIsALargerDisk: the file grows under a session, which is told by a unit attention and then reaches the new blocks.
func TestGrownFileIsALargerDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, "--lun", "lun=0,name=disk0,path=DIR/disk,size=8MiB")
	s.start(t)
	session := dial(t, s, 0)
	beyond := make([]byte, 4096)
	if err := session.Read(t.Context(), lunOf(0), 8<<20/512, 8, beyond); err == nil {
		t.Fatal("a read beyond the end succeeded")
	}
	if err := os.Truncate(filepath.Join(s.dir, "disk"), 16<<20); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the LUN is shown with its new size", func() bool { return s.lun(t, 0).Blocks == 16<<20/512 })
	if r, err := session.Do(t.Context(), lunOf(0), make([]byte, 6), nil, nil); err != nil {
		t.Fatal(err)
	} else if sense, err := scsi.ParseSense(r.Sense()); err != nil || sense.Code != scsi.CapacityChanged {
		t.Errorf("the session is told %v, %v; want that the capacity has changed", sense, err)
	}
	if err := session.Read(t.Context(), lunOf(0), 8<<20/512, 8, beyond); err != nil {
		t.Errorf("a read of what is new: %v", err)
	}
	if l := s.lun(t, 0); l.Health != "good" || !slices.Contains(l.Powers, "unmap") {
		t.Errorf("health %q, powers %v", l.Health, l.Powers)
	}
}
