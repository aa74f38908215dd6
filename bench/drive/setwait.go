package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// waitingClient is one connection of the SET + WAIT load: one request under way at a time.
type waitingClient struct {
	descriptor int
	request    []byte // SET key value, WAIT n timeout; the key's digits are rewritten each time
	reply      []byte // what has arrived of the two reply lines
	sent       time.Time
}

// keyDigitsOffset is where the twelve digits of the key start in a request.
var keyDigitsOffset = len("*3\r\n$3\r\nSET\r\n$16\r\nkey:")

func (c *waitingClient) send(keys int) {
	digits := fmt.Sprintf("%012d", rand.IntN(keys))
	copy(c.request[keyDigitsOffset:], digits)
	c.reply = c.reply[:0]
	c.sent = time.Now()
	written, err := syscall.Write(c.descriptor, c.request)
	stopOn(err, "sending")
	if written != len(c.request) {
		stopOn(fmt.Errorf("%d of %d bytes", written, len(c.request)), "sending")
	}
}

// setWait drives SET followed by WAIT from many connections, all in one thread with epoll, as redis-benchmark
// does for plain commands: a client with a thread or a goroutine per connection would take processor time that
// the servers need, and flatter whoever they are compared with.
func setWait(arguments []string) {
	flags := flag.NewFlagSet("setwait", flag.ExitOnError)
	address := flags.String("addr", "127.0.0.1:6379", "the primary")
	clients := flags.Int("clients", 1, "connections")
	requests := flags.Int("requests", 10000, "operations in all")
	replicas := flags.Int("replicas", 1, "replicas that WAIT waits for; 0: no WAIT at all")
	size := flags.Int("size", 256, "bytes of a value")
	keys := flags.Int("keys", 100000, "number of keys")
	flags.Parse(arguments)
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()

	request := appendCommand(nil, "SET", keyName(0), strings.Repeat("x", *size))
	lines := 1
	if *replicas > 0 {
		request = appendCommand(request, "WAIT", fmt.Sprint(*replicas), "5000")
		lines = 2
	}
	poll, err := syscall.EpollCreate1(0)
	stopOn(err, "epoll")
	byDescriptor := map[int32]*waitingClient{}
	var files []*os.File // keeps the descriptors from being closed by the garbage collector
	for range *clients {
		socket, err := net.Dial("tcp", *address)
		stopOn(err, "connecting to "+*address)
		file, err := socket.(*net.TCPConn).File()
		stopOn(err, "the socket's descriptor")
		socket.Close()
		files = append(files, file)
		client := &waitingClient{descriptor: int(file.Fd()), request: bytes.Clone(request)}
		byDescriptor[int32(client.descriptor)] = client
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(client.descriptor)}
		stopOn(syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, client.descriptor, &event), "epoll")
	}

	all := make(latencies, 0, *requests)
	started, tooFew, toSend := time.Now(), 0, *requests
	for _, client := range byDescriptor {
		if toSend > 0 {
			toSend--
			client.send(*keys)
		}
	}
	events := make([]syscall.EpollEvent, *clients)
	input := make([]byte, 4096)
	for len(all) < *requests {
		ready, err := syscall.EpollWait(poll, events, 10_000)
		if err == syscall.EINTR {
			continue
		}
		stopOn(err, "epoll")
		if ready == 0 {
			stopOn(fmt.Errorf("no answer in 10 s"), "waiting")
		}
		for _, event := range events[:ready] {
			client := byDescriptor[event.Fd]
			count, err := syscall.Read(client.descriptor, input)
			stopOn(err, "reading")
			if count == 0 {
				stopOn(fmt.Errorf("the server closed the connection"), "reading")
			}
			client.reply = append(client.reply, input[:count]...)
			if bytes.Count(client.reply, []byte("\n")) < lines {
				continue
			}
			if client.reply[0] != '+' {
				stopOn(fmt.Errorf("%q", client.reply), "an answer to SET")
			}
			all = append(all, uint32(time.Since(client.sent)/time.Microsecond))
			if lines == 2 && !bytes.HasSuffix(client.reply, []byte(fmt.Sprintf(":%d\r\n", *replicas))) {
				// With two replicas WAIT 1 may well answer 2.
				var held int
				at := bytes.IndexByte(client.reply, ':')
				if fmt.Sscanf(string(client.reply[at+1:]), "%d", &held); held < *replicas {
					tooFew++
				}
			}
			if toSend > 0 {
				toSend--
				client.send(*keys)
			}
		}
	}
	seconds := time.Since(started).Seconds()
	runtime.KeepAlive(files)
	all.sort()
	printJSON(map[string]any{
		"rate": float64(len(all)) / seconds, "p50_ms": all.milliseconds(.5), "p99_ms": all.milliseconds(.99),
		"max_ms": all.milliseconds(1), "operations": len(all), "too_few_replicas": tooFew,
	})
}
