package main

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// poller reads from many connections in one thread with epoll, as redis-benchmark does: a client with a thread or a
// goroutine per connection would take processor time that the servers need, and flatter whoever they are compared with.
type poller struct {
	poll  int
	files []*os.File // keeps the descriptors from being closed by the garbage collector
	input []byte
}

func newPoller() *poller {
	poll, err := syscall.EpollCreate1(0)
	stopOn(err, "epoll")
	return &poller{poll: poll, input: make([]byte, 256*1024)}
}

// connect opens a connection; its descriptor blocks.
func (p *poller) connect(address string) int {
	socket, err := net.Dial("tcp", address)
	stopOn(err, "connecting to "+address)
	file, err := socket.(*net.TCPConn).File()
	stopOn(err, "the socket's descriptor")
	socket.Close()
	p.files = append(p.files, file)
	descriptor := int(file.Fd())
	event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(descriptor)}
	stopOn(syscall.EpollCtl(p.poll, syscall.EPOLL_CTL_ADD, descriptor, &event), "epoll")
	return descriptor
}

// send writes all of it.
func (p *poller) send(descriptor int, output []byte) {
	for len(output) > 0 {
		written, err := syscall.Write(descriptor, output)
		if err == syscall.EINTR {
			continue
		}
		stopOn(err, "sending")
		output = output[written:]
	}
}

// wait gives what has arrived to arrived, at least something from one connection.
func (p *poller) wait(arrived func(descriptor int, input []byte)) {
	events := make([]syscall.EpollEvent, 64)
	ready, err := syscall.EpollWait(p.poll, events, 30_000)
	if err == syscall.EINTR {
		return
	}
	stopOn(err, "epoll")
	if ready == 0 {
		stopOn(fmt.Errorf("no answer in 30 s"), "waiting")
	}
	for _, event := range events[:ready] {
		count, err := syscall.Read(int(event.Fd), p.input)
		if err == syscall.EINTR {
			continue
		}
		stopOn(err, "reading")
		if count == 0 {
			stopOn(fmt.Errorf("the server closed the connection"), "reading")
		}
		arrived(int(event.Fd), p.input[:count])
	}
}
