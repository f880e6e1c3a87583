//! Files that are written on a thread of their own while training goes on.

use std::thread::{Builder, JoinHandle};

use anyhow::{Context, Result};

/// Writes one thing at a time.
#[derive(Debug, Default)]
pub struct Writer {
    running: Option<JoinHandle<Result<()>>>,
}

impl Writer {
    /// Begins to write, when what was being written before is there. Errors: that of what was being written before.
    pub fn start(&mut self, write: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        self.wait()?;
        let thread = Builder::new().name("checkpoint".to_owned()).spawn(write);
        self.running = Some(thread.context("the thread that writes checkpoints cannot be made")?);
        Ok(())
    }

    /// Waits until everything is written. Errors: what was being written could not be.
    pub fn wait(&mut self) -> Result<()> {
        match self.running.take() {
            Some(running) => running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Ok(()),
        }
    }

    /// Gives the error of what was being written as soon as there is one, without waiting.
    pub fn check(&mut self) -> Result<()> {
        if self.running.as_ref().is_some_and(JoinHandle::is_finished) { self.wait() } else { Ok(()) }
    }
}

impl Drop for Writer {
    /// A run that ends by an error of its own still leaves a whole checkpoint.
    fn drop(&mut self) {
        if let Some(Err(error)) = self.running.take().and_then(|running| running.join().ok()) {
            tracing::error!("{error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex, mpsc},
        time::{Duration, Instant},
    };

    use anyhow::bail;

    use super::*;

    #[test]
    fn one_thing_is_written_at_a_time_and_all_of_them_are() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let (go, gate) = mpsc::channel::<()>();
        let mut writer = Writer::default();
        let first = Arc::clone(&written);
        writer
            .start(move || {
                gate.recv_timeout(Duration::from_secs(30))?;
                first.lock().unwrap().push(1);
                Ok(())
            })
            .unwrap();
        // It has not been waited for.
        assert!(written.lock().unwrap().is_empty());
        writer.check().unwrap();
        go.send(()).unwrap();
        let second = Arc::clone(&written);
        writer
            .start(move || {
                let before = second.lock().unwrap().clone();
                assert_eq!(before, [1]);
                std::thread::sleep(Duration::from_millis(20));
                second.lock().unwrap().push(2);
                Ok(())
            })
            .unwrap();
        drop(writer);
        assert_eq!(*written.lock().unwrap(), [1, 2]);
    }

    #[test]
    fn an_error_comes_with_the_next_thing_or_as_soon_as_it_is_asked_for() {
        let mut writer = Writer::default();
        writer.start(|| bail!("disk full")).unwrap();
        let error = writer.start(|| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "disk full");
        writer.start(|| bail!("disk full again")).unwrap();
        let started = Instant::now();
        let error = loop {
            if let Err(error) = writer.check() {
                break error.to_string();
            }
            assert!(started.elapsed() < Duration::from_secs(30));
        };
        assert_eq!(error, "disk full again");
        writer.wait().unwrap();
    }
}
