// One broker of franz-go's kfake at 127.0.0.1:PORT, with its files in DIRECTORY, until SIGTERM.
//
//	kfake PORT DIRECTORY
package main

import (
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: kfake PORT DIRECTORY")
	}
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatalf("%s is no port", os.Args[1])
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	<-told
	cluster.Close()
}
