// The peer of `holdfast bench http`: a reservation service as a strong engineer would write it in Go in a day, with the
// same idea. One goroutine decides for each pool, a batch is one transaction, and every response waits until its data is
// on disk. It does less than Holdfast: holds do not expire, and there are no sales windows, limits, receipts or payments.
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: peer ADDRESS DATABASE, with PEER_SERVICE_KEY and PEER_BUYER_SECRET in the environment")
	}
	// The live heap is small compared with the machine's memory, so collect less often than by default.
	debug.SetGCPercent(400)
	store, err := openStore(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	pools, err := loadPools(store)
	if err != nil {
		log.Fatal(err)
	}
	api := &API{pools, os.Getenv("PEER_SERVICE_KEY"), newTokens(os.Getenv("PEER_BUYER_SECRET"))}
	server := &http.Server{Handler: api.routes(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		<-stopped.Done()
		server.Close()
	}()
	if err := server.Serve(listener); err != http.ErrServerClosed {
		log.Fatal(err)
	}
}

func openStore(database string) (Store, error) {
	if strings.HasPrefix(database, "postgres") {
		return openPostgres(database)
	}
	return openSQLite(database)
}
