//! Where a report's figures come from.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use headstart_engine::Observation;
use headstart_engine::observation::History;

/// How long an operator may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const MOST: u64 = 256 << 20;

/// What an operator at an address remembers, or what a file holds.
pub(crate) fn read(from: &str) -> anyhow::Result<History> {
    ensure!(
        !from.starts_with("https://"),
        "{from}: an operator answers http:// only\n  forward its port to this machine: {FORWARD}"
    );
    if let Some(rest) = from.strip_prefix("http://") {
        let text = ask(rest).with_context(|| {
            format!("cannot ask the operator at {from}\n  forward its port to this machine: {FORWARD}")
        })?;
        return serde_json::from_str(&text).with_context(|| {
            format!("{from} answers, but not with observations; is it an operator's port for metrics?")
        });
    }
    let text = fs::read_to_string(from).with_context(|| {
        format!(
            "cannot read {from}\n  name a file, or the address of an operator such as http://127.0.0.1:8080"
        )
    })?;
    parse(&text).with_context(|| format!("{from} holds no observations"))
}

const FORWARD: &str = "kubectl port-forward -n kube-system deploy/headstart 8080";

/// What a file holds: one history, or observations line by line.
fn parse(text: &str) -> anyhow::Result<History> {
    if let Ok(history) = serde_json::from_str(text) {
        return Ok(history);
    }
    let mut history = History::default();
    for (number, line) in text.lines().enumerate() {
        let observation: Observation =
            serde_json::from_str(line).map_err(|error| anyhow!("line {}: {error}", number + 1))?;
        history.take(observation);
    }
    history.mode = history.decisions.back().map(|decision| decision.mode).unwrap_or_default();
    history.from = history.samples.first().map(|sample| sample.at).unwrap_or_default();
    history.to = history.samples.last().map(|sample| sample.at).unwrap_or_default();
    Ok(history)
}

/// Asks for observations; operators speak plain HTTP.
fn ask(rest: &str) -> anyhow::Result<String> {
    let authority = rest.split('/').next().unwrap_or_default();
    let address = if authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return exchange(stream, authority),
            Err(error) => last = error,
        }
    }
    Err(last.into())
}

fn exchange(mut stream: TcpStream, authority: &str) -> anyhow::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET /observations HTTP/1.0\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(MOST).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is no HTTP")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    match status {
        "200" => Ok(body.to_owned()),
        "404" => {
            bail!("it has no /observations; is it an operator of this version, and its port for metrics?")
        }
        _ => bail!("it answers {}", head.lines().next().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// An operator that answers once.
    fn answering(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let length = stream.read(&mut asked).unwrap();
            assert!(asked[..length].starts_with(b"GET /observations HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        format!("http://{address}")
    }

    #[test]
    fn an_operator_is_asked_and_its_answer_read() {
        let url = answering(
            "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"catalog\":\"aws\",\"dropped\":3}",
        );
        let history = read(&url).unwrap();
        assert_eq!((history.catalog.as_str(), history.dropped), ("aws", 3));
    }

    #[test]
    fn errors_say_what_to_do() {
        let said = |from: &str| format!("{:#}", read(from).unwrap_err());
        assert!(
            said("http://127.0.0.1:1").contains("kubectl port-forward"),
            "{}",
            said("http://127.0.0.1:1")
        );
        assert!(said("https://x").contains("http:// only"));
        assert!(said("/no/such/file").contains("name a file"));
        assert!(said(&answering("HTTP/1.0 404 Not Found\r\n\r\n")).contains("no /observations"));
        assert!(said(&answering("HTTP/1.0 200 OK\r\n\r\nhello")).contains("not with observations"));
    }

    #[test]
    fn a_file_holds_a_history_or_lines() {
        assert_eq!(parse("{\"catalog\": \"aws\"}\n").unwrap().catalog, "aws");
        let lines =
            "{\"decision\":{\"id\":1,\"mode\":\"observe\"}}\n{\"sample\":{\"at\":5}}\n{\"beliefs\":[]}\n";
        let history = parse(lines).unwrap();
        assert_eq!((history.decisions.len(), history.samples.len(), history.to.0), (1, 1, 5));
        assert!(parse("no\n").is_err());
    }
}
