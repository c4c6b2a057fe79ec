// Package bridge is the only package that sees go-plugin. It starts and ends plugin processes on the host's
// side, serves on the plugin's, and hides go-plugin's habits that a storage daemon cannot live with:
//
//   - a Client works once, so each start makes a new one;
//   - its notion of an exited process waits for the end of stdout and stderr, which a grandchild can hold open: death
//     here is what wait(2) says, at once;
//   - one over-long line on stdout stops its scanner, after which the plugin blocks at its next print: stdout is read here, and
//     only the handshake line is passed on;
//   - Kill waits without limit for a stopped process: Stop has a deadline;
//   - a killed plugin leaves its socket behind: each process has a directory of its own, removed after it;
//   - a plugin survives a killed host: the kernel kills it (PR_SET_PDEATHSIG), and it also ends itself when the
//     descriptor channel closes. A warden kills its children and removes its directory;
//   - a plugin's children survive it: its process group is killed after it, while the number is not free yet;
//   - errors are about go-plugin, and each line of a plugin's is logged: here they say what the plugin printed and what to do,
//     and lines have a budget.
//
// A process that is to be kept apart further than by its umask and the loss of privileges starts as a launcher, this very
// program once more (sdk/internal/launcher).
package bridge
