// A typical Go server: one goroutine per connection, with blocking reads and writes. The runtime parks goroutines on epoll.
//
//	server fixed PORT REQUEST_BYTES RESPONSE_BYTES
//	server stream PORT PACKET_BYTES PACKETS ACK_BYTES
//	server http PORT
//
// `stream` acknowledges bursts of packets. A burst that begins with a zero byte has one packet. `http` answers /bytes/N.
package main

import (
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

const bodyBytesMax = 64 << 20

// service has the sizes of requests and responses.
type service struct {
	requestBytes int
	// The bytes of a request that begins with a zero byte.
	greetingBytes int
	// The most bytes of one read.
	readBytes int
	response  []byte
}

func main() {
	name, numbers := "", []int{}
	if len(os.Args) > 2 {
		name = os.Args[1]
		for _, text := range os.Args[2:] {
			numbers = append(numbers, number(text))
		}
	}
	switch {
	case name == "fixed" && len(numbers) == 3:
		request, response := numbers[1], numbers[2]
		listen(numbers[0], service{request, request, 64 << 10, make([]byte, response)})
	case name == "stream" && len(numbers) == 4:
		packet, packets, ack := numbers[1], numbers[2], numbers[3]
		listen(numbers[0], service{packet * packets, packet, packet, make([]byte, ack)})
	case name == "http" && len(numbers) == 1:
		log.Fatal(http.ListenAndServe(address(numbers[0]), http.HandlerFunc(content)))
	default:
		log.Fatalf("usage: %[1]s fixed PORT REQUEST_BYTES RESPONSE_BYTES, %[1]s stream PORT PACKET_BYTES PACKETS ACK_BYTES, or "+
			"%[1]s http PORT", os.Args[0])
	}
}

func address(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func listen(port int, service service) {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		log.Fatal(err)
	}
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
		go service.serve(connection)
	}
}

// serve answers each whole request with one response until the client closes the connection. TCP_NODELAY is Go's default.
func (service service) serve(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, service.readBytes)
	left := 0
	for {
		// An error means that the client closed or reset the connection; all whole requests are answered.
		count, err := connection.Read(buffer)
		for bytes := buffer[:count]; len(bytes) > 0; {
			if left == 0 {
				left = service.requestBytes
				if bytes[0] == 0 {
					left = service.greetingBytes
				}
			}
			taken := min(left, len(bytes))
			left -= taken
			bytes = bytes[taken:]
			if left == 0 {
				if _, err := connection.Write(service.response); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

var body = make([]byte, bodyBytesMax)

// content answers a GET of /bytes/N with N bytes.
func content(response http.ResponseWriter, request *http.Request) {
	const prefix = "/bytes/"
	path := request.URL.Path
	if len(path) < len(prefix) || path[:len(prefix)] != prefix {
		http.NotFound(response, request)
		return
	}
	count, err := strconv.Atoi(path[len(prefix):])
	if err != nil || count < 0 || count > bodyBytesMax {
		http.NotFound(response, request)
		return
	}
	response.Header().Set("Content-Type", "application/octet-stream")
	response.Header().Set("Content-Length", strconv.Itoa(count))
	response.Write(body[:count])
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil || value < 1 {
		log.Fatalf("invalid number %q: expected a positive integer", text)
	}
	return value
}
