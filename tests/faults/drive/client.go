package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client asks one thing at a time, of one node until that one fails.
type client struct {
	options *options
	record  *recorder
	id      int64
	target  int
	server  *connection
	address string // of the node that it asks, or has asked last
	serial  int64
}

func newClient(o *options, record *recorder, number int) *client {
	return &client{options: o, record: record, id: record.newID(), target: number}
}

func (c *client) work(stop *atomic.Bool) {
	pause := time.Duration(c.options.clients) * time.Second / time.Duration(max(1, c.options.rate))
	for !stop.Load() {
		// Exponential pauses: arrivals that know nothing of each other.
		time.Sleep(min(time.Second, time.Duration(rand.ExpFloat64()*float64(pause))))
		c.one()
	}
	c.leave()
}

// connected makes sure that there is a connection, and tells whether there is.
func (c *client) connected() bool {
	if c.server != nil {
		return true
	}
	c.address = c.options.nodes.at(c.target)
	server, err := dial(c.address)
	if err != nil {
		c.target++
		time.Sleep(10 * time.Millisecond)
		return false
	}
	c.server = server
	return true
}

// leave gives the connection up; the next one goes to another node.
func (c *client) leave() {
	if c.server != nil {
		c.server.socket.Close()
		c.server = nil
		c.target++
	}
}

func (c *client) value() string {
	c.serial++
	return fmt.Sprintf("v%d.%d", c.id, c.serial)
}

// key draws one of the keys now in use. A key serves one epoch only: so its history stays short enough to be checked.
// The run's tag keeps it apart from the keys of earlier runs.
func (c *client) key(class string, keys int) string {
	epoch := c.record.now() / int64(c.options.epoch)
	return fmt.Sprintf("%s%s.%d.%d", class, c.options.tag, epoch, rand.IntN(keys))
}

// one draws an operation and carries it out.
func (c *client) one() {
	if !c.connected() {
		return
	}
	text := func(s string) *string { return &s }
	number := func(n int64) *int64 { return &n }
	single := func(op, key string, argument *string, amount *int64) {
		c.run(&operation{Commands: []command{{op, key, argument, amount}}})
	}
	switch draw := rand.IntN(100); {
	case draw < 50: // registers
		key := c.key("r", 24)
		switch draw := rand.IntN(100); {
		case draw < 40:
			single("SET", key, text(c.value()), nil)
		case draw < 75:
			single("GET", key, nil, nil)
		case draw < 83:
			single("GETSET", key, text(c.value()), nil)
		case draw < 88:
			single("SETNX", key, text(c.value()), nil)
		case draw < 92:
			single("DEL", key, nil, nil)
		case draw < 95:
			single("GETDEL", key, nil, nil)
		default:
			single("EXISTS", key, nil, nil)
		}
	case draw < 65: // counters
		key := c.key("c", 12)
		switch draw := rand.IntN(10); {
		case draw < 4:
			single("INCR", key, nil, nil)
		case draw < 7:
			single("INCR", key, nil, number(1+rand.Int64N(9)))
		default:
			single("GET", key, nil, nil)
		}
	case draw < 75: // growing texts
		key := c.key("a", 12)
		if rand.IntN(2) == 0 {
			single("APPEND", key, text(c.value()+";"), nil)
		} else {
			single("GET", key, nil, nil)
		}
	case draw < 82 && c.options.expiry:
		key := c.key("e", 12)
		if rand.IntN(3) == 0 {
			single("SETPX", key, text(c.value()), number(50+rand.Int64N(400)))
		} else {
			single("GET", key, nil, nil)
		}
	default: // transactions on two keys that always change together
		tag := c.key("t", 16)
		x, y := "{"+tag+"}x", "{"+tag+"}y"
		switch draw := rand.IntN(10); {
		case draw < 4:
			value := c.value()
			c.run(&operation{Commands: []command{{"SET", x, &value, nil}, {"SET", y, &value, nil}}})
		case draw < 8:
			c.run(&operation{Commands: []command{{"GET", x, nil, nil}, {"GET", y, nil, nil}}})
		default:
			c.watch(x, y)
		}
	}
}

// words gives the command as RESP has it.
func (c *command) words() []string {
	switch {
	case c.Op == "SETPX":
		return []string{"SET", c.Key, *c.Argument, "PX", fmt.Sprint(*c.Number)}
	case c.Op == "INCR" && c.Number != nil:
		return []string{"INCRBY", c.Key, fmt.Sprint(*c.Number)}
	case c.Argument != nil:
		return []string{c.Op, c.Key, *c.Argument}
	}
	return []string{c.Op, c.Key}
}

// run carries out and records one operation: a command, or several in MULTI … EXEC.
func (c *client) run(o *operation) {
	o.Client, o.Invoke = c.id, c.record.now()
	if len(o.Commands) == 1 {
		words := o.Commands[0].words()
		if c.options.once && o.writes() && rand.IntN(3) == 0 {
			c.runOnce(o, words)
			return
		}
		replies, err := c.server.exchange(c.options.timeout, words)
		c.finish(o, replies, err)
		return
	}
	commands := [][]string{{"MULTI"}}
	for i := range o.Commands {
		commands = append(commands, o.Commands[i].words())
	}
	commands = append(commands, []string{"EXEC"})
	replies, err := c.server.exchange(c.options.timeout, commands...)
	c.finish(o, executed(replies), err)
}

// executed takes the replies of a transaction's commands out of those to MULTI … EXEC; an error or nil stands alone.
func executed(replies []any) []any {
	if len(replies) == 0 {
		return nil
	}
	last := replies[len(replies)-1]
	if refused, is := last.(errorReply); is && strings.HasPrefix(string(refused), "EXECABORT") {
		// The reason was told when a command was queued.
		for _, reply := range replies {
			if reason, is := reply.(errorReply); is {
				return []any{reason}
			}
		}
	}
	if items, is := last.([]any); is {
		for _, item := range items {
			if refused, is := item.(errorReply); is {
				// The workload has no command that fails when executed: what the others did is anyone's guess.
				return []any{errorReply("UNKNOWN error inside EXEC: " + string(refused))}
			}
		}
		return items
	}
	return []any{last}
}

// runOnce repeats the command under one id, on other nodes if need be, until its outcome is known.
func (c *client) runOnce(o *operation, words []string) {
	id := fmt.Sprintf("%d-%d-%d", os.Getpid(), c.id, c.record.newID())
	giveUp := time.Now().Add(20 * time.Second)
	for {
		if c.connected() {
			replies, err := c.server.exchange(c.options.timeout, append([]string{"DICTUM.ONCE", id}, words...))
			outcome := outcomeOf(replies, err)
			if outcome == "done" || time.Now().After(giveUp) {
				c.finish(o, replies, err)
				return
			}
			// Not done is repeated as well: whoever repeats an id must not care which of the two it was.
			c.record.noteRepeat()
			c.leave()
			time.Sleep(20 * time.Millisecond)
		} else if time.Now().After(giveUp) {
			c.finish(o, nil, errors.New("no node could be reached"))
			return
		}
	}
}

// outcomeOf reads an answer: what is definitely done, definitely not, or neither.
func outcomeOf(replies []any, err error) string {
	if err != nil {
		return "maybe"
	}
	for _, reply := range replies {
		if refused, is := reply.(errorReply); is {
			if strings.HasPrefix(string(refused), "UNKNOWN") {
				return "maybe"
			}
			return "failed"
		}
	}
	return "done"
}

func (c *client) finish(o *operation, replies []any, err error) {
	outcome := outcomeOf(replies, err)
	if outcome == "done" && len(replies) != len(o.Commands) {
		outcome = "failed" // a transaction that did not happen because a watched key had changed
		c.record.add(o, outcome, nil)
		return
	}
	c.record.add(o, outcome, replies)
	if outcome == "done" {
		return
	}
	if outcome == "maybe" {
		c.id, c.serial = c.record.newID(), 0
	}
	c.trouble(o.Commands[0].Op, replies, err)
}

// trouble notes why something was not done, and turns to the next node.
func (c *client) trouble(asked string, replies []any, err error) {
	if err != nil {
		var slow interface{ Timeout() bool }
		timedOut := errors.As(err, &slow) && slow.Timeout()
		if timedOut {
			c.record.note(fmt.Sprintf("no answer in %s to %s… from %s", c.options.timeout, asked, c.address), true)
		} else {
			c.record.note("connection lost", false)
		}
	} else {
		for _, reply := range replies {
			if refused, is := reply.(errorReply); is {
				c.record.note(string(refused), false)
				break
			}
		}
	}
	c.leave()
	time.Sleep(10 * time.Millisecond)
}

// watch reads a key under WATCH, and writes both in a transaction that must not happen if the first one has changed.
func (c *client) watch(x, y string) {
	if replies, err := c.server.exchange(c.options.timeout, []string{"WATCH", x}); outcomeOf(replies, err) != "done" {
		// Nothing was asked of the data, so there is nothing to record but the error.
		c.trouble("WATCH", replies, err)
		return
	}
	look := &operation{Client: c.id, Invoke: c.record.now(), Commands: []command{{"GET", x, nil, nil}}}
	replies, err := c.server.exchange(c.options.timeout, []string{"GET", x})
	seen := outcomeOf(replies, err)
	c.finish(look, replies, err)
	if seen != "done" {
		return
	}
	before := watched{Key: x}
	if text, is := replies[0].(string); is {
		before.Value = &text
	}
	value := c.value()
	o := &operation{Commands: []command{{"SET", x, &value, nil}, {"SET", y, &value, nil}}, Watched: []watched{before}}
	c.run(o)
}

// readEverything reads every key that was ever used through every node, and returns how many reads never succeeded.
func readEverything(o *options, record *recorder) int {
	keys := record.allKeys()
	var unread atomic.Int64
	var running sync.WaitGroup
	end := time.Now().Add(o.settle)
	for _, address := range o.nodes.all() {
		const readers = 4
		for part := range readers {
			running.Add(1)
			go func() {
				defer running.Done()
				alone := *o
				alone.nodes = newNodes(address)
				reader := newClient(&alone, record, 0)
				for i := part; i < len(keys); i += readers {
					for {
						if time.Now().After(end) {
							unread.Add(1)
							break
						}
						if reader.connected() {
							one := &operation{Client: reader.id, Invoke: record.now(), Commands: []command{{"GET", keys[i], nil, nil}}}
							replies, err := reader.server.exchange(o.timeout, one.Commands[0].words())
							outcome := outcomeOf(replies, err)
							reader.finish(one, replies, err)
							if outcome == "done" {
								break
							}
						}
					}
				}
				reader.leave()
			}()
		}
	}
	running.Wait()
	return int(unread.Load())
}
