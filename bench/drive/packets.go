package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// placeholder is what a number of twelve digits takes the place of, as in redis-benchmark.
const placeholder = "__rand_int__"

// packetClient is one connection of `drive packets`: its packets are answered in full before the next ones go out.
type packetClient struct {
	input   []byte // what has arrived and is no whole reply
	replies int    // that are still to come
	sent    time.Time
}

// wholeReply tells how long the first reply of input is, arrays with all that is in them; 0: not complete.
func wholeReply(input []byte) int {
	at := replyLength(input)
	if at == 0 || input[0] != '*' {
		return at
	}
	elements, err := strconv.Atoi(string(input[1 : at-2]))
	stopOn(err, "a reply")
	for range max(elements, 0) {
		length := 0
		if at < len(input) {
			length = wholeReply(input[at:])
		}
		if length == 0 {
			return 0
		}
		at += length
	}
	return at
}

// splitCommands reads words in which a word ";" ends a command.
func splitCommands(words []string) [][]string {
	commands := [][]string{nil}
	for _, word := range words {
		if word == ";" {
			commands = append(commands, nil)
			continue
		}
		last := len(commands) - 1
		commands[last] = append(commands[last], word)
	}
	return commands
}

// packets drives an operation of one command or of several: `drive packets -pipeline 16 MULTI ";" INCR a ";" EXEC`.
// An operation is done with its last reply. redis-benchmark does this for operations of one command.
func packets(arguments []string) {
	flags := flag.NewFlagSet("packets", flag.ExitOnError)
	address := flags.String("addr", "127.0.0.1:6379", "RESP server")
	clients := flags.Int("clients", 50, "connections")
	pipeline := flags.Int("pipeline", 1, "operations in one packet")
	requests := flags.Int("requests", 10000, "operations in all")
	numbers := flags.Int("numbers", 100000, placeholder+" is a number below this")
	flags.Parse(arguments)
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()

	commands := splitCommands(flags.Args())
	var packet []byte
	for range *pipeline {
		for _, command := range commands {
			packet = appendCommand(packet, command...)
		}
	}
	var places []int
	for from := 0; ; {
		at := bytes.Index(packet[from:], []byte(placeholder))
		if at < 0 {
			break
		}
		places = append(places, from+at)
		from += at + len(placeholder)
	}
	p, byDescriptor := newPoller(), map[int]*packetClient{}
	done, toSend := 0, *requests
	all := make(latencies, 0, *requests / *pipeline + *clients)
	send := func(descriptor int, client *packetClient) {
		for _, place := range places {
			appendDigits(packet[place:place], rand.IntN(*numbers))
		}
		toSend -= *pipeline
		client.replies = *pipeline * len(commands)
		client.sent = time.Now()
		p.send(descriptor, packet)
	}
	for range *clients {
		byDescriptor[p.connect(*address)] = &packetClient{}
	}
	started := time.Now()
	for descriptor, client := range byDescriptor {
		if toSend > 0 {
			send(descriptor, client)
		}
	}
	for done < *requests-toSend || toSend > 0 {
		p.wait(func(descriptor int, input []byte) {
			client := byDescriptor[descriptor]
			client.input = append(client.input, input...)
			rest := client.input
			for client.replies > 0 {
				length := wholeReply(rest)
				if length == 0 {
					break
				}
				if reply := string(rest[:length]); strings.HasPrefix(reply, "-") || strings.Contains(reply, "\r\n-") {
					stopOn(fmt.Errorf("%q", reply), "an answer")
				}
				rest = rest[length:]
				client.replies--
				if client.replies == 0 {
					done += *pipeline
					all = append(all, uint32(time.Since(client.sent)/time.Microsecond))
				}
			}
			client.input = append(client.input[:0], rest...)
			if client.replies == 0 && toSend > 0 {
				send(descriptor, client)
			}
		})
	}
	seconds := time.Since(started).Seconds()
	runtime.KeepAlive(p)
	all.sort()
	printJSON(map[string]any{
		"rate": float64(done) / seconds, "seconds": seconds, "operations": done,
		"p50_ms": all.milliseconds(.5), "p99_ms": all.milliseconds(.99), "max_ms": all.milliseconds(1),
	})
}
