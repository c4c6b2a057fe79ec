package pluginhost

import "time"

// State is where a plugin is in its life.
type State uint8

// The states.
const (
	// StateRunning: the process answers. Stores that could not be opened again are counted in Status.Waiting.
	StateRunning State = iota + 1
	// StateDown: there is no process; the next is started when Status.Next has come.
	StateDown
	// StateStarting: a process is being started, or its stores opened.
	StateStarting
	// StateClosed: Close was called.
	StateClosed
)

// String names the state.
func (s State) String() string {
	switch s {
	case StateRunning:
		return "running"
	case StateDown:
		return "down"
	case StateStarting:
		return "starting"
	case StateClosed:
		return "closed"
	}
	return "unknown"
}

// Status is a plugin as an operator sees it.
type Status struct {
	Name, Path string
	State      State
	// Since is when State was entered.
	Since time.Time
	// PID is the process's number, 0 without one. About is its own word on what it was built with.
	PID   int
	About string
	// Notice is a line of the plugin's for the operator, empty if it has none.
	Notice string
	// Ring tells whether data goes over shared memory.
	Ring bool
	// Stores is how many are open or to be, Waiting how many of them are not open.
	Stores, Waiting int
	// Restarts counts processes after the first.
	Restarts uint64
	// Stalled is for how long the process has left requests untaken.
	Stalled time.Duration
	// Next is when the next start is tried, in StateDown.
	Next time.Time
	// LastError is why the last process ended, or could not be started.
	LastError string
}

func (p *Plugin) describe(s *Status) {
	s.Stores = len(p.stores)
	for st := range p.stores {
		if st.open == nil {
			s.Waiting++
		}
	}
	if p.proc != nil {
		s.Ring, s.Stalled = p.proc.Ring(), p.proc.Stalled()
	}
}
