package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gosrpt/gosrpt/core/admin/adminpb"
)

func logoutCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "logout SESSION", Short: "end a session; its initiator may log in again",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("logout takes one session number, as srptctl sessions shows it")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return usageError{fmt.Errorf("%q is not a session number", args[0])}
			}
			_, err = call(c.Context(), o, &adminpb.LogoutRequest{Id: id}, adminpb.AdminClient.Logout)
			return err
		},
	}
}
