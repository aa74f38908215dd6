package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// loadClient is one connection of the load: up to `pipeline` requests under way at a time.
type loadClient struct {
	descriptor int
	output     []byte
	input      []byte // what has arrived of a reply that is not complete
	sent       []int64
	oldest     int // index into sent, a ring
	waiting    int
}

// load drives GET or SET from many connections in one thread with epoll, as redis-benchmark does, with keys chosen
// uniformly, by a zipfian law or in order. It is a closed loop: a client sends its next request when it has its answer.
type load struct {
	set      bool
	size     int
	pipeline int
	keys     choice
	random   *rand.Rand
	noise    []byte // values are cut out of this, so that nothing can compress them well
	limit    int64  // requests to send in all; 0: until `ends`
	sent     int64
	origin   time.Time
	from, to int64 // nanoseconds after origin between which replies are measured

	times               histogram
	answered, absent    int64
	last                int64 // when the last reply came, whichever
	stall, stallAt      int64
	stalls              int64 // times without any reply of over 50 ms
	slowestAt           int64
	secondAt, perSecond int64
	fewest              int64
	errors              int64
	firstError          string
}

const stallLimit = 50 * int64(time.Millisecond)

func (l *load) now() int64 { return int64(time.Since(l.origin)) }

// over says whether nothing more is to be sent.
func (l *load) over(now int64) bool {
	return l.limit > 0 && l.sent >= l.limit || l.limit == 0 && now >= l.to
}

func (l *load) send(c *loadClient, now int64) {
	c.output = c.output[:0]
	for c.waiting < l.pipeline && !l.over(now) {
		number := l.keys.next()
		if l.set {
			c.output = append(c.output, "*3\r\n$3\r\nSET\r\n$16\r\nkey:"...)
		} else {
			c.output = append(c.output, "*2\r\n$3\r\nGET\r\n$16\r\nkey:"...)
		}
		c.output = appendDigits(c.output, number)
		if l.set {
			c.output = append(c.output, "\r\n$"...)
			c.output = strconv.AppendInt(c.output, int64(l.size), 10)
			c.output = append(c.output, "\r\n"...)
			start := l.random.IntN(len(l.noise) - l.size)
			c.output = append(c.output, l.noise[start:start+l.size]...)
		}
		c.output = append(c.output, "\r\n"...)
		c.sent[(c.oldest+c.waiting)%l.pipeline] = now
		c.waiting++
		l.sent++
	}
	for rest := c.output; len(rest) > 0; {
		written, err := syscall.Write(c.descriptor, rest)
		if err == syscall.EINTR {
			continue
		}
		stopOn(err, "sending")
		rest = rest[written:]
	}
}

// appendDigits adds twelve digits, as keyName does.
func appendDigits(buffer []byte, number int) []byte {
	for divisor := 100_000_000_000; divisor > 0; divisor /= 10 {
		buffer = append(buffer, byte('0'+number/divisor%10))
	}
	return buffer
}

// replyLength tells how long the first reply of input is; 0: not complete.
func replyLength(input []byte) int {
	end := bytes.IndexByte(input, '\n')
	if end < 0 {
		return 0
	}
	if input[0] != '$' {
		return end + 1
	}
	length, err := strconv.Atoi(string(input[1 : end-1]))
	stopOn(err, "a reply")
	if length < 0 {
		return end + 1
	}
	if len(input) < end+1+length+2 {
		return 0
	}
	return end + 1 + length + 2
}

// take counts one reply.
func (l *load) take(c *loadClient, reply []byte, now int64) {
	began := c.sent[c.oldest]
	c.oldest = (c.oldest + 1) % l.pipeline
	c.waiting--
	if now < l.from {
		l.last = now
		return
	}
	if quiet := now - l.last; quiet > l.stall {
		l.stall, l.stallAt = quiet, l.last
	}
	if now-l.last > stallLimit {
		l.stalls++
	}
	l.last = now
	for now >= l.secondAt+int64(time.Second) {
		l.fewest = min(l.fewest, l.perSecond)
		l.secondAt += int64(time.Second)
		l.perSecond = 0
	}
	l.perSecond++
	switch {
	case reply[0] == '-':
		l.errors++
		if l.firstError == "" {
			l.firstError = string(bytes.TrimSpace(reply))
		}
	case len(reply) > 1 && reply[0] == '$' && reply[1] == '-' || reply[0] == '_':
		l.absent++
	}
	if now-began > l.times.longest {
		l.slowestAt = began
	}
	l.times.add(now - began)
	l.answered++
}

func runLoad(arguments []string) {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	address := flags.String("addr", "127.0.0.1:6379", "RESP server")
	command := flags.String("command", "get", "get or set")
	clients := flags.Int("clients", 64, "connections")
	pipeline := flags.Int("pipeline", 1, "requests under way per connection")
	keys := flags.Int("keys", 100000, "number of keys")
	size := flags.Int("size", 100, "bytes of a value")
	choose := flags.String("choose", "uniform", "uniform, zipfian, sequential or shuffled")
	theta := flags.Float64("theta", 0.99, "how uneven zipfian is")
	requests := flags.Int64("requests", 0, "requests in all; 0: by time")
	seconds := flags.Duration("time", 10*time.Second, "how long is measured")
	warm := flags.Duration("warm", 0, "load before that")
	bucket := flags.String("select", "", "SELECT this first, on every connection")
	seed := flags.Uint64("seed", 1, "seed of all that is random")
	flags.Parse(arguments)
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()

	l := &load{
		set: *command == "set", size: *size, pipeline: *pipeline, limit: *requests, fewest: 1 << 62,
		keys: newChoice(*choose, *keys, *theta, *seed), random: rand.New(rand.NewPCG(*seed, 2)),
		noise: make([]byte, *size+64*1024),
	}
	for at := range l.noise {
		l.noise[at] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[l.random.IntN(64)]
	}
	poll, err := syscall.EpollCreate1(0)
	stopOn(err, "epoll")
	byDescriptor := map[int32]*loadClient{}
	var files []*os.File // keeps the descriptors from being closed by the garbage collector
	var all []*loadClient
	for range *clients {
		file := connectLoad(*address, *bucket)
		files = append(files, file)
		client := &loadClient{descriptor: int(file.Fd()), sent: make([]int64, *pipeline)}
		byDescriptor[int32(client.descriptor)] = client
		all = append(all, client)
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(client.descriptor)}
		stopOn(syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, client.descriptor, &event), "epoll")
	}
	l.origin = time.Now()
	l.from, l.to = int64(*warm), int64(*warm)+int64(*seconds)
	l.secondAt = l.from
	for _, client := range all {
		l.send(client, l.now())
	}
	l.drive(poll, byDescriptor)
	runtime.KeepAlive(files)
	measured := float64(l.last-l.from) / 1e9
	if l.fewest == 1<<62 {
		l.fewest = l.perSecond
	}
	printJSON(map[string]any{
		"rate": float64(l.answered) / measured, "seconds": measured, "operations": l.answered,
		"p50_ms": l.times.milliseconds(.5), "p99_ms": l.times.milliseconds(.99),
		"p999_ms": l.times.milliseconds(.999), "p9999_ms": l.times.milliseconds(.9999),
		"max_ms": float64(l.times.longest) / 1e6, "max_at_s": float64(l.slowestAt) / 1e9,
		"stall_ms": float64(l.stall) / 1e6, "stall_at_s": float64(l.stallAt) / 1e9, "stalls": l.stalls,
		"over_50_ms": l.times.over(stallLimit), "slowest_second": l.fewest,
		"absent": l.absent, "errors": l.errors, "first_error": l.firstError,
	})
}

// connectLoad opens one connection and selects the bucket, if one is named; its descriptor blocks.
func connectLoad(address, bucket string) *os.File {
	server, err := dial(address, 5*time.Second)
	stopOn(err, "connecting to "+address)
	if bucket != "" {
		server.queue("SELECT", bucket)
		stopOn(server.flush(), "SELECT")
		stopOn(server.receive(), "SELECT")
	}
	file, err := server.socket.(*net.TCPConn).File()
	stopOn(err, "the socket's descriptor")
	server.socket.Close()
	return file
}

// drive sends and receives until all is answered.
func (l *load) drive(poll int, byDescriptor map[int32]*loadClient) {
	events := make([]syscall.EpollEvent, len(byDescriptor))
	input := make([]byte, 256*1024)
	under := l.sent
	for under > 0 {
		ready, err := syscall.EpollWait(poll, events, 30_000)
		if err == syscall.EINTR {
			continue
		}
		stopOn(err, "epoll")
		if ready == 0 {
			stopOn(fmt.Errorf("no answer in 30 s"), "waiting")
		}
		for _, event := range events[:ready] {
			client := byDescriptor[event.Fd]
			count, err := syscall.Read(client.descriptor, input)
			if err == syscall.EINTR {
				continue
			}
			stopOn(err, "reading")
			if count == 0 {
				stopOn(fmt.Errorf("the server closed the connection"), "reading")
			}
			now, arrived := l.now(), input[:count]
			if len(client.input) > 0 {
				client.input = append(client.input, arrived...)
				arrived = client.input
			}
			for client.waiting > 0 {
				length := replyLength(arrived)
				if length == 0 {
					break
				}
				l.take(client, arrived[:length], now)
				arrived = arrived[length:]
				under--
			}
			client.input = append(client.input[:0], arrived...)
			// A pipeline is filled again when half of it was answered, so that packets stay large.
			if client.waiting <= l.pipeline/2 {
				before := l.sent
				l.send(client, now)
				under += l.sent - before
			}
		}
	}
}
