// Program says what it was built with.
package main

import (
	"fmt"

	"github.com/gosrpt/gosrpt/cmd/internal/built"
)

func main() { fmt.Print(built.Own("")) }
