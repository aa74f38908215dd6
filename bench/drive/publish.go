package main

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// publish measures messages from one channel's publishers to its subscribers, which are connected to the given addresses
// in turns. A message counts once all subscribers have it; the packets of a publisher are answered before the next one goes out.
func publish(arguments []string) {
	flags := flag.NewFlagSet("publish", flag.ExitOnError)
	address := flags.String("addr", "127.0.0.1:6379", "where is published")
	subscribe := flags.String("subscribe", "127.0.0.1:6379", "where is subscribed, separated by commas")
	subscribers := flags.Int("subscribers", 10, "subscribers in all")
	publishers := flags.Int("publishers", 50, "publishing connections")
	pipeline := flags.Int("pipeline", 16, "messages in one packet")
	messages := flags.Int("messages", 10000, "messages in all")
	size := flags.Int("size", 128, "bytes of a message")
	flags.Parse(arguments)
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()

	const channel = "bench:channel"
	text := strings.Repeat("x", *size)
	greeting := fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(channel), channel)
	push := appendCommand(nil, "message", channel, text)
	packet := bytes.Repeat(appendCommand(nil, "PUBLISH", channel, text), *pipeline)

	p := newPoller()
	addresses := strings.Split(*subscribe, ",")
	missing := map[int]int{} // bytes that a subscriber has still to hear
	for number := range *subscribers {
		descriptor := p.connect(addresses[number%len(addresses)])
		missing[descriptor] = len(greeting)
		p.send(descriptor, appendCommand(nil, "SUBSCRIBE", channel))
	}
	waiting, replies := *subscribers, map[int]int{}
	answered := func(descriptor int, input []byte) bool {
		if input[0] != ':' && replies[descriptor] == *pipeline {
			stopOn(fmt.Errorf("%q", input), "an answer to PUBLISH")
		}
		replies[descriptor] -= bytes.Count(input, []byte("\n"))
		return replies[descriptor] == 0
	}
	hear := func(descriptor int, input []byte) {
		missing[descriptor] -= len(input)
		if missing[descriptor] < 0 {
			stopOn(fmt.Errorf("%q", input), "more came than was published")
		}
		if missing[descriptor] == 0 {
			waiting--
		}
	}
	for waiting > 0 {
		p.wait(hear)
	}

	toSend := *messages / *pipeline * *pipeline
	for descriptor := range missing {
		missing[descriptor] = toSend * len(push)
	}
	waiting = *subscribers
	send := func(descriptor int) {
		toSend -= *pipeline
		replies[descriptor] = *pipeline
		p.send(descriptor, packet)
	}
	var publishing []int
	for range *publishers {
		publishing = append(publishing, p.connect(*address))
	}
	total, started := toSend, time.Now()
	for _, descriptor := range publishing {
		if toSend > 0 {
			send(descriptor)
		}
	}
	for waiting > 0 {
		p.wait(func(descriptor int, input []byte) {
			if _, is := missing[descriptor]; is {
				hear(descriptor, input)
			} else if answered(descriptor, input) && toSend > 0 {
				send(descriptor)
			}
		})
	}
	seconds := time.Since(started).Seconds()
	runtime.KeepAlive(p)
	printJSON(map[string]any{"rate": float64(total) / seconds, "seconds": seconds, "operations": total})
}
