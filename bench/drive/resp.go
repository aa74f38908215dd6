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
	output []byte
}

// errorReply is an error that the server sent (the line without its leading '-').
type errorReply string

func (e errorReply) Error() string { return string(e) }

func dial(address string, timeout time.Duration) (*connection, error) {
	socket, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	return &connection{socket: socket, input: bufio.NewReaderSize(socket, 64*1024)}, nil
}

// appendCommand adds one command in RESP's array form to buffer.
func appendCommand(buffer []byte, arguments ...string) []byte {
	buffer = append(buffer, '*')
	buffer = strconv.AppendInt(buffer, int64(len(arguments)), 10)
	buffer = append(buffer, '\r', '\n')
	for _, argument := range arguments {
		buffer = append(buffer, '$')
		buffer = strconv.AppendInt(buffer, int64(len(argument)), 10)
		buffer = append(buffer, '\r', '\n')
		buffer = append(buffer, argument...)
		buffer = append(buffer, '\r', '\n')
	}
	return buffer
}

func (c *connection) queue(arguments ...string) { c.output = appendCommand(c.output, arguments...) }

func (c *connection) flush() error {
	_, err := c.socket.Write(c.output)
	c.output = c.output[:0]
	return err
}

// receive reads one simple, integer or bulk reply and throws its content away.
func (c *connection) receive() error {
	line, err := c.input.ReadSlice('\n')
	if err != nil {
		return err
	}
	if len(line) < 3 {
		return errors.New("a reply without a type")
	}
	body := string(line[1 : len(line)-2])
	switch line[0] {
	case '+', ':', '_':
		return nil
	case '-':
		return errorReply(body)
	case '$':
		length, err := strconv.Atoi(body)
		if err != nil {
			return err
		}
		if length >= 0 {
			_, err = io.CopyN(io.Discard, c.input, int64(length)+2)
		}
		return err
	}
	return fmt.Errorf("a reply that was not expected: %q", line)
}
