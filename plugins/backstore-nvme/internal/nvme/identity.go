package nvme

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// identity is what tells one namespace from all others. An identifier that is zero is not there.
type identity struct {
	serial string // the controller's
	nsid   uint32
	nguid  [16]byte
	eui    [8]byte
	uuid   [16]byte
}

// String is for the operator: "serial/nsid" and what else is known.
func (i identity) String() string {
	parts := []string{fmt.Sprintf("%s/%d", i.serial, i.nsid)}
	for _, f := range i.fields()[2:] {
		if f.value != "" {
			parts = append(parts, f.name+"."+f.value)
		}
	}
	return strings.Join(parts, " ")
}

// settings are the identifiers that are there as an operator sets them.
func (i identity) settings() string {
	var parts []string
	for _, f := range i.fields() {
		if f.value != "" {
			parts = append(parts, f.name+" "+f.value)
		}
	}
	return strings.Join(parts, ", ")
}

// fits tells how i differs from what is wanted, of which identifiers that are not there do not count.
func (i identity) fits(want identity) error {
	have := i.fields()
	for n, w := range want.fields() {
		if w.value != "" && w.value != have[n].value {
			return fmt.Errorf("it is another namespace: its %s is %q, want %q; mend the configuration, or the name of the device",
				w.name, have[n].value, w.value)
		}
	}
	return nil
}

// field is an identifier; its value is "" if it is not there.
type field struct{ name, value string }

func (i identity) fields() []field {
	number := ""
	if i.nsid != 0 {
		number = strconv.FormatUint(uint64(i.nsid), 10)
	}
	return []field{{"serial", i.serial}, {"nsid", number}, {"nguid", digits(i.nguid[:])}, {"eui", digits(i.eui[:])}, {"uuid", digits(i.uuid[:])}}
}

func digits(id []byte) string {
	if isZero(id) {
		return ""
	}
	return hex.EncodeToString(id)
}

// The types of a Namespace Identification Descriptor (5.15.2.4), and the length of each.
const (
	typeEUI64      = 1
	typeNGUID      = 2
	typeUUID       = 3
	typeCommandSet = 4 // since 2.0

	descriptorHead = 4 // type, length, two reserved bytes
)

// commandSetNVM is the command set of blocks that are read and written.
const commandSetNVM = 0

// addDescriptors reads a list of Namespace Identification Descriptors, CNS 03h. It ends with a descriptor of length 0, or
// with b; types that are not known are skipped. It returns the command set. What stands before an error counts.
func (i *identity) addDescriptors(b []byte) (commandSet uint8, err error) {
	set := []byte{commandSetNVM}
	known := map[uint8][]byte{typeEUI64: i.eui[:], typeNGUID: i.nguid[:], typeUUID: i.uuid[:], typeCommandSet: set}
	for len(b) >= descriptorHead && b[1] != 0 {
		kind, n := b[0], int(b[1])
		b = b[descriptorHead:]
		if n > len(b) {
			return set[0], fmt.Errorf("an identifier of the namespace has %d bytes, but %d are left", n, len(b))
		}
		if into := known[kind]; into != nil && len(into) != n {
			return set[0], fmt.Errorf("an identifier of the namespace, of type %d, has %d bytes, want %d", kind, n, len(into))
		}
		copy(known[kind], b[:n])
		b = b[n:]
	}
	return set[0], nil
}
