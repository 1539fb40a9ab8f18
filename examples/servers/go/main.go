// A typical Go server for requests and responses of fixed sizes: one goroutine per connection, with blocking reads and writes.
// The runtime parks goroutines on epoll.
//
//	server PORT REQUEST_BYTES RESPONSE_BYTES
package main

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatalf("usage: %s PORT REQUEST_BYTES RESPONSE_BYTES", os.Args[0])
	}
	requestBytes, responseBytes := number(os.Args[2]), number(os.Args[3])
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", os.Args[1]))
	if err != nil {
		log.Fatal(err)
	}
	response := make([]byte, responseBytes)
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			log.Fatal(err)
		}
		if err != nil {
			// Descriptors ran out, or the client disconnected: the next accept may succeed.
			log.Print(err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go serve(connection, requestBytes, response)
	}
}

// serve answers each whole request with one response until the client closes the connection. TCP_NODELAY is Go's default.
func serve(connection net.Conn, requestBytes int, response []byte) {
	defer connection.Close()
	// One read may contain several requests.
	requests := bufio.NewReader(connection)
	request := make([]byte, requestBytes)
	for {
		// The client closed or reset the connection; all whole requests are answered.
		if _, err := io.ReadFull(requests, request); err != nil {
			return
		}
		if _, err := connection.Write(response); err != nil {
			return
		}
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 {
		log.Fatalf("invalid number of bytes %q: expected a positive integer", text)
	}
	return value
}
