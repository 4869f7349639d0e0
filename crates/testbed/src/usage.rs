//! What a process uses, by the kernel's books.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Memory of a process in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub now: u64,
    /// The most it has held.
    pub peak: u64,
}

/// User and system time of a process.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the operator has ended")?;
    // The name in parentheses may hold spaces; the fields after it do not. User and system time are 12th and 13th.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = [11, 12].iter().filter_map(|index| fields.get(*index)?.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// Processor time of this thread.
pub(crate) fn own_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

pub(crate) fn memory(pid: u32) -> Result<Memory> {
    parse(&status(pid)?)
}

/// What a process holds in memory now, in KiB.
pub fn resident_kib(pid: u32) -> Result<u64> {
    kib(&status(pid)?, "VmRSS")
}

fn status(pid: u32) -> Result<String> {
    std::fs::read_to_string(format!("/proc/{pid}/status")).context("the operator has ended")
}

fn kib(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let amount = line.with_context(|| format!("the kernel tells no {name}"))?;
    Ok(amount.trim().trim_end_matches(" kB").parse()?)
}

fn parse(status: &str) -> Result<Memory> {
    let mib = |name| Ok::<_, anyhow::Error>(kib(status, name)?.div_ceil(1024));
    Ok(Memory { now: mib("VmRSS")?, peak: mib("VmHWM")? })
}

/// Waits until a process has used less than a hundredth of a core for `how_long`, but no longer than `limit`; tells how
/// many cores it used in the end.
pub(crate) async fn rest(pid: u32, how_long: Duration, limit: Duration) -> Result<f64> {
    let start = Instant::now();
    loop {
        let before = cpu_time(pid)?;
        tokio::time::sleep(how_long).await;
        let cores = cpu_time(pid)?.saturating_sub(before).as_secs_f64() / how_long.as_secs_f64();
        if cores < 0.01 || start.elapsed() > limit {
            return Ok(cores);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_rounded_up() {
        let status = "Name:\tx\nVmPeak:\t  99999 kB\nVmHWM:\t    2049 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(parse(status).unwrap(), Memory { now: 1, peak: 3 });
        assert!(parse("Name:\tx\n").is_err());
    }

    #[test]
    fn a_process_that_runs_has_both() {
        let pid = std::process::id();
        let memory = memory(pid).unwrap();
        assert!(memory.peak >= memory.now && memory.now > 0, "{memory:?}");
        cpu_time(pid).unwrap();
    }
}
