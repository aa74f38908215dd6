// The NATS server as one program. The server is published as a library with its command line inside;
// this file is all that is missing to run it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	flags := flag.NewFlagSet("nats-server", flag.ExitOnError)
	usage := func() { fmt.Println("usage: nats-server --config FILE | --version") }
	options, err := server.ConfigureOptions(flags, os.Args[1:], server.PrintServerAndExit, usage, server.PrintTLSHelpAndDie)
	if err != nil {
		server.PrintAndDie("nats-server: " + err.Error())
	}
	node, err := server.NewServer(options)
	if err != nil {
		server.PrintAndDie("nats-server: " + err.Error())
	}
	node.ConfigureLogger()
	if err := server.Run(node); err != nil {
		server.PrintAndDie("nats-server: " + err.Error())
	}
	node.WaitForShutdown()
}
