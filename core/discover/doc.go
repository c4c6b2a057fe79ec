// Package discover asks the Device Management agent behind a port what it offers: the conversation of mad.Discovery, with
// the datagrams, the clock and the losses that package mad leaves out. It knows no transport but the seam: the port may be
// that of any provider.
// On InfiniBand the way to an agent is asked of the subnet's administrator first: FindPath.
//
// Datagrams are lost, so a query is sent again until it is answered or its tries are used up. What arrives and is no answer
// to the open query (late answers, other senders, malformed datagrams) is counted and changes nothing, not even how long is
// waited. However hostile or silent the agent is, a discovery ends within Config.Limit.
package discover
