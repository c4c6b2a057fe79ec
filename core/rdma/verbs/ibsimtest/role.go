package ibsimtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// roleEnv makes a test's program a process of a node.
const roleEnv = "GOSRPT_TEST_NODE"

// Role is what a process of a node does with its input. It ends with an error, or at the input's end.
type Role func(context.Context, *bufio.Scanner) error

// Play plays the role for which this process was started (Subnet.Role), in the test TestProcessOfANode, which has nothing else.
func Play(t *testing.T, roles map[string]Role) {
	t.Helper()
	role := roles[os.Getenv(roleEnv)]
	if role == nil {
		t.Skip("only run by tests on a simulated subnet")
	}
	if err := role(t.Context(), bufio.NewScanner(os.Stdin)); err != nil {
		t.Fatal(err)
	}
}

// Role is this program in a role, on a node.
func (s *Subnet) Role(node, role string, env ...string) *exec.Cmd {
	cmd := s.Command(node, "/proc/self/exe", "-test.run=^TestProcessOfANode$")
	cmd.Env = append(append(cmd.Env, env...), roleEnv+"="+role)
	return cmd
}

// StartRole starts it.
func (s *Subnet) StartRole(node, role string, env ...string) *Program {
	s.Helper()
	return start(s.T, role+" on "+node, s.Role(node, role, env...))
}

// answer begins the lines that answer Ask.
const answer = "answer "

// Reply answers a line of input, in a role.
func Reply(v any) error {
	b, err := json.Marshal(v)
	fmt.Println(answer + string(b))
	return err
}
