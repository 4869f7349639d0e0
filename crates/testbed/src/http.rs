//! Just enough HTTP to ask a program on this machine how it is.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result};

/// What a port answers to a request: code and text. Blocks.
pub fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let code = answer.split(' ').nth(1).context("no answer")?.parse()?;
    Ok((code, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
}
