//! A child process on its stdin and stdout.
//!
//! It is the leader of a process group, so that Ctrl-C in a terminal reaches the host alone and what the child has started
//! can be ended with it. Three threads carry its streams, so that a child that does not read or does not write holds up
//! nobody: whoever waits for it gives up at a deadline and kills the group.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{self, Receiver, Sender};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::link::{Deadline, Line, Link, excerpt, read_line, too_long};

/// How long a child may take to end once its stdin is closed.
const GRACE: Duration = Duration::from_secs(2);
/// How long a child that closed its stdout may take to say how it ended.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Lines of stderr that are kept, and bytes of each.
const TAIL: usize = 20;
const TAIL_BYTES: usize = 400;

pub(super) struct ChildLink {
    process: Child,
    group: Pid,
    input: Option<Sender<String>>,
    lines: Receiver<Result<Line, std::io::Error>>,
    tail: Arc<Mutex<VecDeque<String>>>,
    /// Disconnected once stderr is closed.
    tail_ended: Receiver<()>,
    limit: usize,
    /// Its stdout is closed, so it is about to end.
    closed: bool,
    ended: bool,
}

impl ChildLink {
    /// Starts the program. It dies with the thread that calls this.
    pub(super) fn start(mut command: Command, limit: usize) -> std::io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        die_with_parent(&mut command);
        let mut process = command.spawn()?;
        let group = Pid::from_child(&process);
        let (input, to_write) = channel::unbounded();
        // Few, so that a child that floods is held up by its own pipe.
        let (to_read, lines) = channel::bounded(4);
        let tail: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let (end, tail_ended) = channel::bounded::<()>(0);
        let kept = Arc::clone(&tail);
        let streams = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let link =
            Self { process, group, input: Some(input), lines, tail, tail_ended, limit, closed: false, ended: false };
        if let (Some(stdin), Some(stdout), Some(stderr)) = streams {
            thread::Builder::new().name("outside-in".to_owned()).spawn(move || write_all(stdin, &to_write))?;
            thread::Builder::new().name("outside-out".to_owned()).spawn(move || read_all(stdout, limit, &to_read))?;
            thread::Builder::new().name("outside-err".to_owned()).spawn(move || {
                keep_tail(stderr, &kept);
                drop(end);
            })?;
        }
        Ok(link)
    }

    /// Kills the child and what is left of its group. Its number is not given to another process before it is waited for.
    fn kill(&mut self) -> Option<ExitStatus> {
        if self.ended {
            return None;
        }
        self.ended = true;
        self.input = None;
        // Fails only where nothing is left to kill.
        let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
        self.process.wait().ok()
    }

    /// Waits until the child has ended by itself.
    fn ends_within(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        loop {
            // The child stays a zombie until `kill`, so its group still is its own.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            match rustix::process::waitid(WaitId::Pid(self.group), options) {
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(2)),
                Ok(None) => return false,
                _ => return true,
            }
        }
    }
}

impl Link for ChildLink {
    fn send(&mut self, line: String, _deadline: Deadline) -> Result<(), String> {
        match self.lines.try_recv() {
            Ok(Ok(Line::Whole(line))) => {
                return Err(format!("it wrote a line that nobody had asked for: `{}`", excerpt(&line)));
            }
            Ok(Ok(Line::TooLong)) => return Err(too_long(self.limit)),
            // What else may be there is found when the answer is read.
            _ => {}
        }
        let sent = self.input.as_ref().is_some_and(|input| input.send(line).is_ok());
        if sent { Ok(()) } else { Err("it no longer reads its stdin".to_owned()) }
    }

    fn receive(&mut self, deadline: Deadline, stop: &Receiver<()>) -> Result<Vec<u8>, String> {
        channel::select! {
            recv(self.lines) -> line => match line {
                Ok(Ok(Line::Whole(line))) => Ok(line),
                Ok(Ok(Line::TooLong)) => Err(too_long(self.limit)),
                Ok(Ok(Line::End(_))) | Err(_) => {
                    self.closed = true;
                    Err("it closed its stdout".to_owned())
                }
                Ok(Err(error)) => Err(format!("its stdout cannot be read: {error}")),
            },
            recv(stop) -> _ => Err("nobody waits for it any more".to_owned()),
            default(deadline.left()) => Err(deadline.late("it")),
        }
    }

    fn post_mortem(&mut self) -> String {
        let by_itself = self.ends_within(if self.closed { LAST_WORDS } else { Duration::ZERO });
        let status = self.kill().filter(|_| by_itself);
        let _ = self.tail_ended.recv_timeout(LAST_WORDS);
        let mut text = status.map(|status| format!("; its process ended with {status}")).unwrap_or_default();
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if !tail.is_empty() {
            text.push_str("; the last lines of its stderr:");
            tail.iter().for_each(|line| text.push_str(&format!("\n  {line}")));
        }
        text
    }

    fn end(&mut self) {
        self.input = None;
        self.ends_within(GRACE);
        self.kill();
    }

    fn is_own(&self) -> bool {
        true
    }
}

impl Drop for ChildLink {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Has the kernel kill the child when the thread that starts it ends, with the whole host or alone.
#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor takes a lock.
    #[allow(unsafe_code)]
    unsafe {
        command.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}

/// Elsewhere the end of its stdin must do.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}

/// Writes until nobody sends or the child does not read.
fn write_all(mut stdin: ChildStdin, lines: &Receiver<String>) {
    for line in lines {
        if stdin.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
}

/// Reads until the child closes, goes too far, or nobody listens.
fn read_all(stdout: ChildStdout, limit: usize, lines: &Sender<std::io::Result<Line>>) {
    let mut reader = BufReader::with_capacity(1 << 16, stdout);
    loop {
        let line = read_line(&mut reader, limit);
        let last = !matches!(line, Ok(Line::Whole(_)));
        if lines.send(line).is_err() || last {
            break;
        }
    }
}

/// Reads all of stderr and keeps the last lines of it.
fn keep_tail(stderr: ChildStderr, tail: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(TAIL_BYTES as u64).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let text: String = String::from_utf8_lossy(&line).trim_end().chars().filter(|c| !c.is_control()).collect();
        if text.is_empty() {
            continue;
        }
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(text);
    }
}
