package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// connection speaks RESP2, one caller at a time.
type connection struct {
	socket net.Conn
	input  *bufio.Reader
}

// errorReply is an error that the server sent (the line without its leading '-').
type errorReply string

func (e errorReply) Error() string { return string(e) }

func dial(address string) (*connection, error) {
	socket, err := net.DialTimeout("tcp", address, 500*time.Millisecond)
	if err != nil {
		return nil, err
	}
	return &connection{socket, bufio.NewReader(socket)}, nil
}

// exchange sends all commands in one write and reads one reply for each: nil, an int64, a string, an errorReply or a
// []any of these. An error means that the connection is of no more use.
func (c *connection) exchange(timeout time.Duration, commands ...[]string) ([]any, error) {
	var output []byte
	for _, command := range commands {
		output = append(output, '*')
		output = strconv.AppendInt(output, int64(len(command)), 10)
		output = append(output, '\r', '\n')
		for _, word := range command {
			output = append(output, '$')
			output = strconv.AppendInt(output, int64(len(word)), 10)
			output = append(output, '\r', '\n')
			output = append(output, word...)
			output = append(output, '\r', '\n')
		}
	}
	c.socket.SetDeadline(time.Now().Add(timeout))
	if _, err := c.socket.Write(output); err != nil {
		return nil, err
	}
	var replies []any
	for range commands {
		reply, err := c.receive()
		if err != nil {
			return nil, err
		}
		replies = append(replies, reply)
	}
	return replies, nil
}

func (c *connection) receive() (any, error) {
	line, err := c.input.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, errors.New("a reply without a type")
	}
	body := line[1 : len(line)-2]
	switch line[0] {
	case '+':
		return body, nil
	case '-':
		return errorReply(body), nil
	case ':':
		return strconv.ParseInt(body, 10, 64)
	case '_':
		return nil, nil
	}
	length, err := strconv.Atoi(body)
	if err != nil || length < -1 || length > 1<<29 {
		return nil, fmt.Errorf("a reply that was not expected: %q", line)
	}
	switch {
	case length == -1:
		return nil, nil
	case line[0] == '$':
		text := make([]byte, length+2)
		_, err := io.ReadFull(c.input, text)
		return string(text[:length]), err
	case line[0] == '*':
		items := make([]any, length)
		for i := range items {
			if items[i], err = c.receive(); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("a reply that was not expected: %q", line)
}
