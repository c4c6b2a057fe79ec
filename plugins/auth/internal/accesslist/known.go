package accesslist

import "github.com/gosrpt/gosrpt/sdk/auth"

// maxKnown bounds how many logins are remembered. The change that is told to all makes up for those that are not.
const maxKnown = 1024

// known remembers who was let in, the oldest forgotten first.
type known struct {
	logins map[auth.Login]bool
	order  []auth.Login
}

func newKnown() *known { return &known{logins: map[auth.Login]bool{}} }

func (k *known) add(l auth.Login) {
	if k.logins[l] {
		return
	}
	if len(k.order) >= maxKnown {
		delete(k.logins, k.order[0])
		k.order = append(k.order[:0], k.order[1:]...)
	}
	k.logins[l] = true
	k.order = append(k.order, l)
}

// refused are the initiators of which l lets no login in, and forgets their logins. Others keep theirs: the host asks
// about each of their sessions.
func (k *known) refused(l *list) []auth.ID {
	allowed := map[auth.ID]bool{}
	for _, login := range k.order {
		if l.decide(&login).Allow {
			allowed[login.Initiator] = true
		}
	}
	var gone []auth.ID
	told := map[auth.ID]bool{}
	left := k.order[:0]
	for _, login := range k.order {
		switch id := login.Initiator; {
		case allowed[id]:
			left = append(left, login)
			continue
		case !told[id]:
			told[id] = true
			gone = append(gone, id)
		}
		delete(k.logins, login)
	}
	k.order = left
	return gone
}
