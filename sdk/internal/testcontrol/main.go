// Command testcontrol is the auth and ioctx plugin that the SDK's own tests start. It misbehaves on request. Its first
// argument is what it is: auth, ioctx, or one of the hostile ones.
package main

import (
	"fmt"
	"os"

	"github.com/gosrpt/gosrpt/sdk/plugin"
)

func main() {
	what := ""
	if len(os.Args) > 1 {
		what = os.Args[1]
	}
	switch what {
	case "auth":
		plugin.ServeAuth(authOpener{})
	case "ioctx":
		plugin.ServeIOCtx(ioctxOpener{})
	case "hostile":
		serveHostile(os.Args[2])
	default:
		fmt.Fprintf(os.Stderr, "testcontrol: I am no %q\n", what)
		os.Exit(2)
	}
}

// What the last byte of a login's initiator, or a situation's memory, asks for.
const (
	askAllow   = 1
	askRefuse  = 2
	askFail    = 3
	askHang    = 4
	askExit    = 5
	askBroken  = 6 // an answer that breaks the contract
	askChange  = 7
	askChanges = 8 // more than can wait
)

// config reads the keys that both kinds have: fail (Open fails with this text), closed (a file that Close makes).
func config(m map[string]string) (closed string, err error) {
	for k, v := range m {
		switch k {
		case "fail":
			return "", fmt.Errorf("%s", v)
		case "closed":
			closed = v
		case "once": // a file that is there while it is open
			f, err := os.OpenFile(v, os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return "", err
			}
			once = v
			f.Close()
		case "mute": // no changes are told
		default:
			return "", fmt.Errorf("no such key: %s", k)
		}
	}
	return closed, nil
}

// once is removed at the end.
var once string

func closing(file string) error {
	if once != "" {
		if err := os.Remove(once); err != nil {
			return err
		}
	}
	if file == "" {
		return nil
	}
	return os.WriteFile(file, []byte("closed"), 0o600)
}
