package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"
)

// waitingClient is one connection of the SET + WAIT load: one request under way at a time.
type waitingClient struct {
	request []byte // SET key value, WAIT n timeout; the key's digits are rewritten each time
	reply   []byte // what has arrived of the two reply lines
	sent    time.Time
}

// keyDigitsOffset is where the twelve digits of the key start in a request.
var keyDigitsOffset = len("*3\r\n$3\r\nSET\r\n$16\r\nkey:")

// next makes the next request ready.
func (c *waitingClient) next(keys int) []byte {
	appendDigits(c.request[keyDigitsOffset:keyDigitsOffset], rand.IntN(keys))
	c.reply = c.reply[:0]
	c.sent = time.Now()
	return c.request
}

// setWait drives SET followed by WAIT from many connections.
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
	p, byDescriptor := newPoller(), map[int]*waitingClient{}
	for range *clients {
		byDescriptor[p.connect(*address)] = &waitingClient{request: bytes.Clone(request)}
	}

	all := make(latencies, 0, *requests)
	started, tooFew, toSend := time.Now(), 0, *requests
	for descriptor, client := range byDescriptor {
		if toSend > 0 {
			toSend--
			p.send(descriptor, client.next(*keys))
		}
	}
	for len(all) < *requests {
		p.wait(func(descriptor int, input []byte) {
			client := byDescriptor[descriptor]
			client.reply = append(client.reply, input...)
			if bytes.Count(client.reply, []byte("\n")) < lines {
				return
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
				p.send(descriptor, client.next(*keys))
			}
		})
	}
	seconds := time.Since(started).Seconds()
	runtime.KeepAlive(p)
	all.sort()
	printJSON(map[string]any{
		"rate": float64(len(all)) / seconds, "p50_ms": all.milliseconds(.5), "p99_ms": all.milliseconds(.99),
		"max_ms": all.milliseconds(1), "operations": len(all), "too_few_replicas": tooFew,
	})
}
