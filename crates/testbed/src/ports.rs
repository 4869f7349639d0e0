//! Loopback ports that nobody else will take between choosing and binding.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use anyhow::{Result, bail};

/// Below the ephemeral range, so that no outgoing connection of the machine lands on a chosen port.
const RANGE: std::ops::Range<u16> = 21_000..31_000;

/// A port reserved among testbeds for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// An abstract socket works as a lock that the kernel releases with the process and that leaves no file behind.
    _lock: UnixListener,
}

impl Port {
    /// Reserves any free port.
    pub(crate) fn any() -> Result<Self> {
        let width = RANGE.end - RANGE.start;
        // Processes start looking at different places; this is only to spare them from trying each other's ports.
        let start = (std::process::id() as u16).wrapping_mul(37) % width;
        for offset in 0..width {
            if let Some(port) = Self::reserve(RANGE.start + (start + offset) % width) {
                return Ok(port);
            }
        }
        bail!("no free port between {} and {} on 127.0.0.1", RANGE.start, RANGE.end)
    }

    /// Reserves this very port.
    pub(crate) fn exactly(number: u16) -> Result<Self> {
        match Self::reserve(number) {
            Some(port) => Ok(port),
            None => bail!(
                "port {number} on 127.0.0.1 is in use; stop what listens there (`ss -ltnp sport = :{number}` names it), \
                 or choose another with --port"
            ),
        }
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    fn reserve(number: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("headstart-testbed-port-{number}")).ok()?;
        let lock = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _lock: lock })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_reservations_never_share_a_port() {
        let (one, two) = (Port::any().unwrap(), Port::any().unwrap());
        assert_ne!(one.number(), two.number());
    }

    #[test]
    fn an_occupied_port_is_named_in_the_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let number = listener.local_addr().unwrap().port();
        let message = Port::exactly(number).unwrap_err().to_string();
        assert!(message.contains(&format!("port {number} ")) && message.contains("--port"), "{message}");
    }

    #[test]
    fn a_released_port_can_be_reserved_again() {
        let number = Port::any().unwrap().number();
        assert!(Port::exactly(number).is_ok());
    }
}
