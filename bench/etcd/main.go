// The etcd server as one program. The server is published as a library with its command line inside;
// this file is all that is missing to run it.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
