//! A real Redis to ask.

#![allow(dead_code, missing_docs)]

use super::transcript::{self, quoted};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A server of its own, and a connection to it. Ended when dropped.
pub struct Redis {
    child: Child,
    port: u16,
    stream: BufReader<TcpStream>,
}

impl Redis {
    pub fn start(program: &str) -> Redis {
        Redis::start_with(program, &[])
    }

    /// The same with more arguments.
    pub fn start_with(program: &str, more: &[&str]) -> Redis {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let mut child = Command::new(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .expect("the program of REDIS_SERVER starts");
        loop {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                return Redis { child, port, stream: BufReader::new(stream) };
            }
            assert!(child.try_wait().expect("a child of ours").is_none(), "the server has gone");
            std::thread::yield_now();
        }
    }

    pub fn run(&mut self, args: &[Vec<u8>]) -> Vec<String> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for argument in args {
            request.extend(format!("${}\r\n", argument.len()).bytes());
            request.extend(argument);
            request.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).expect("the server reads");
        self.reply()
    }

    /// From now on `run` and `reply` use another connection, which takes the place of the present one; and back.
    pub fn swap(&mut self, other: &mut Option<BufReader<TcpStream>>) {
        let stream = other.take().unwrap_or_else(|| {
            BufReader::new(TcpStream::connect(("127.0.0.1", self.port)).expect("the server listens"))
        });
        *other = Some(std::mem::replace(&mut self.stream, stream));
    }

    /// A RESP2 reply in the lines that redis-cli would print.
    pub fn reply(&mut self) -> Vec<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("the server answers");
        let text = String::from_utf8_lossy(&line[1..line.len() - 2]).into_owned();
        match line[0] {
            b'+' => vec![text],
            b'-' => vec![format!("(error) {text}")],
            b':' => vec![format!("(integer) {text}")],
            b'$' | b'*' if text == "-1" => vec!["(nil)".to_owned()],
            b'$' => {
                let mut bytes = vec![0; text.parse::<usize>().expect("a length") + 2];
                self.stream.read_exact(&mut bytes).expect("the server answers");
                vec![quoted(&bytes[..bytes.len() - 2])]
            }
            b'*' => {
                let count = text.parse::<usize>().expect("a count");
                let items: Vec<Vec<String>> = (0..count).map(|_| self.reply()).collect();
                transcript::list(items, "(empty array)")
            }
            other => panic!("an unknown kind of reply: {other}"),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
