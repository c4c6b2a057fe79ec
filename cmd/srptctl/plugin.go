package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func pluginCommand(o *options) *cobra.Command {
	c := &cobra.Command{Use: "plugin", Short: "look after plugin processes", Args: noArgs, RunE: func(*cobra.Command, []string) error {
		return usageError{fmt.Errorf("plugin wants a command; srptctl plugin --help lists them")}
	}}
	c.AddCommand(pluginDescribeCommand(o), pluginNewCommand())
	return c
}
