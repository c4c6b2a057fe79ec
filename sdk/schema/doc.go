// Package schema is how a plugin of any kind says what it is and which configuration it takes, so that a host can check the
// configuration before it starts anything, and show it.
//
// Implement [Describer] beside the contract's interface. The values of a configuration are text, as the operator wrote them; [Schema.Read]
// checks them and gives them back as what they are, for the plugin's own use.
package schema
