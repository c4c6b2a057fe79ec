package ibsimtest

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gosrpt/gosrpt/core/ib"
)

// Manager is a subnet manager that is to be started.
type Manager struct {
	Node     string
	Priority int
	// LIDs are given to port GUIDs, whatever they have.
	LIDs map[string]int
}

// StartManager starts a subnet manager, which remembers nothing of an earlier one. It says what it logs, such as "SUBNET UP".
func (s *Subnet) StartManager(m Manager) *Program {
	s.Helper()
	dir := s.TempDir()
	conf := fmt.Sprintf("sm_priority %d\nsweep_interval 1\nsminfo_polling_timeout 500\npolling_retry_number 2\nforce_log_flush TRUE\n", m.Priority)
	var lids strings.Builder
	for guid, lid := range m.LIDs {
		fmt.Fprintf(&lids, "0x%s 0x%04x 0x%04x\n\n", guid, lid, lid)
		conf += "honor_guid2lid_file TRUE\n"
	}
	for name, text := range map[string]string{"conf": conf, "guid2lid": lids.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			s.Fatal(err)
		}
	}
	cmd := s.Command(m.Node, "opensm", "-F", filepath.Join(dir, "conf"), "-f", "stdout", "--console", "off")
	cmd.Env = append(cmd.Env, "OSM_CACHE_DIR="+dir, "OSM_TMP_DIR="+dir)
	return start(s.T, "opensm on "+m.Node, cmd)
}

// NoManager turns a request of a subnet manager, who asks whether there is another one here, into the answer of a port that
// has none (IBTA vol 1, 14.2.5.13).
//
// The simulation hands requests to those programs alone that say that they are subnet managers (SIM_SET_ISSM=1), and then
// managers ask. Without an answer opensm would wait for ever, and a class that nobody has registered ends the process.
func NoManager(m ib.MAD, port ib.GUID) {
	m.SetMethod(ib.MethodGetResp)
	if m.Class() == ib.ClassSubnDR {
		m.SetStatus(0x8000) // on its way back (IBTA vol 1, 14.2.1.2)
	}
	clear(m[64:128])
	binary.BigEndian.PutUint64(m[64:], uint64(port))
}
