package ibsimtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// roleEnv makes a test's program a process of a node.
const roleEnv = "GOSRPT_TEST_NODE"

// Role is what a process of a node does with its input. It ends with an error, or at the input's end.
type Role func(context.Context, *bufio.Scanner) error

// Play plays the role for which StartRole has started this process, in the test TestProcessOfANode, which has nothing else.
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

// StartRole starts this program in a role.
func (s *Subnet) StartRole(node, role string, env ...string) *Program {
	s.Helper()
	cmd := s.Command(node, "/proc/self/exe", "-test.run=^TestProcessOfANode$")
	cmd.Env = append(append(cmd.Env, env...), roleEnv+"="+role)
	return start(s.T, role+" on "+node, cmd)
}

// answer begins the lines that answer Ask.
const answer = "answer "

// Reply answers a line of input, in a role.
func Reply(v any) error {
	b, err := json.Marshal(v)
	fmt.Println(answer + string(b))
	return err
}
