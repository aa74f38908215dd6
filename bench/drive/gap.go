package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// gap writes from many connections spread over all nodes, kills one process with SIGKILL, and finds the longest
// time that passed without a single acknowledged write, from the kill to the end of the run.
//
// A writer whose connection breaks, whose request fails or whose request takes longer than -timeout goes to the
// next node at once, as a client library with a list of nodes does. The same for every kind of server.
func gap(arguments []string) {
	flags := flag.NewFlagSet("gap", flag.ExitOnError)
	kind := flags.String("kind", "resp", "resp, or etcd (puts through the node's own JSON gateway)")
	addressList := flags.String("addrs", "", "nodes, separated by commas")
	victim := flags.Int("kill", 0, "process to kill with SIGKILL; 0: none")
	writers := flags.Int("writers", 32, "connections")
	before := flags.Duration("before", 2*time.Second, "load before the kill")
	after := flags.Duration("after", 5*time.Second, "load after the kill")
	timeout := flags.Duration("timeout", 300*time.Millisecond, "how long a writer waits for one answer")
	flags.Parse(arguments)
	addresses := strings.Split(*addressList, ",")
	var connect func(string) (writer, error)
	switch *kind {
	case "resp":
		connect = func(address string) (writer, error) { return connectRESP(address, *timeout) }
	case "etcd":
		connect = func(address string) (writer, error) { return connectEtcd(address, *timeout), nil }
	default:
		usage()
	}

	origin := time.Now()
	var stop atomic.Bool
	var failures atomic.Int64
	var mutex sync.Mutex // guards the four below: one short section per acknowledged write
	var acknowledged, acknowledgedBefore int
	var last, longest, longestStart time.Duration
	var measuring bool
	var running sync.WaitGroup
	for number := range *writers {
		running.Add(1)
		go func() {
			defer running.Done()
			var node writer
			target := number
			value := strings.Repeat("x", 256)
			for turn := 0; !stop.Load(); turn++ {
				var err error
				if node == nil {
					node, err = connect(addresses[target%len(addresses)])
				}
				if err == nil {
					err = node.write(fmt.Sprintf("gap:%04d:%07d", number, turn%100000), value)
				}
				if err == nil {
					mutex.Lock()
					now := time.Since(origin)
					if measuring && now-last > longest {
						longest, longestStart = now-last, last
					}
					last = now
					acknowledged++
					mutex.Unlock()
					continue
				}
				failures.Add(1)
				if node != nil {
					node.close()
					node = nil
				}
				target++
				time.Sleep(2 * time.Millisecond)
			}
			if node != nil {
				node.close()
			}
		}()
	}
	time.Sleep(*before)
	mutex.Lock()
	measuring, acknowledgedBefore = true, acknowledged
	killed := time.Since(origin)
	mutex.Unlock()
	if acknowledgedBefore == 0 {
		stopOn(errors.New("no write was acknowledged"), "the load before the kill")
	}
	if *victim != 0 {
		stopOn(syscall.Kill(*victim, syscall.SIGKILL), "killing the process")
	}
	time.Sleep(*after)
	mutex.Lock()
	// A gap that is still open when the run ends counts as well.
	end := time.Since(origin)
	open := end-last > longest
	if open {
		longest, longestStart = end-last, last
	}
	result := map[string]any{
		"gap_ms":            float64(longest.Microseconds()) / 1000,
		"gap_start_ms":      float64((longestStart - killed).Microseconds()) / 1000,
		"recovered":         !open,
		"rate_before":       float64(acknowledgedBefore) / before.Seconds(),
		"acknowledged":      acknowledged,
		"failed_or_retried": failures.Load(),
	}
	mutex.Unlock()
	stop.Store(true)
	running.Wait()
	printJSON(result)
}

// writer is one client's way to one node.
type writer interface {
	write(key, value string) error
	close()
}

type respWriter struct {
	*connection
	timeout time.Duration
}

func connectRESP(address string, timeout time.Duration) (writer, error) {
	server, err := dial(address, timeout)
	if err != nil {
		return nil, err
	}
	return &respWriter{server, timeout}, nil
}

func (w *respWriter) write(key, value string) error {
	w.socket.SetDeadline(time.Now().Add(w.timeout))
	w.queue("SET", key, value)
	if err := w.flush(); err != nil {
		return err
	}
	return w.receive()
}

func (w *respWriter) close() { w.socket.Close() }

type etcdWriter struct {
	client  *http.Client
	address string
}

func connectEtcd(address string, timeout time.Duration) writer {
	return &etcdWriter{&http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}, address}
}

func (w *etcdWriter) write(key, value string) error {
	encode := base64.StdEncoding.EncodeToString
	body := fmt.Sprintf(`{"key":%q,"value":%q}`, encode([]byte(key)), encode([]byte(value)))
	answer, err := w.client.Post("http://"+w.address+"/v3/kv/put", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return err
}

func (w *etcdWriter) close() { w.client.CloseIdleConnections() }
