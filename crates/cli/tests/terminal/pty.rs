//! A pseudo-terminal with a shell in it that runs one command, and the screen that it shows.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::{PATIENCE, Scratch, wait_for};

pub(crate) struct Terminal {
    pty: pty_process::blocking::Pty,
    input: fs::File,
    output: Receiver<Vec<u8>>,
    /// All that has been written to it.
    pub(crate) bytes: Vec<u8>,
    screen: vt100::Parser,
    shell: Child,
    pid_file: String,
}

fn size(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

impl Terminal {
    /// Runs `longhaul` with these arguments and variables; its exit code and the terminal's settings follow.
    pub(crate) fn start(scratch: &Scratch, (rows, columns): (u16, u16), command: &str) -> Self {
        let pid_file = scratch.path(&format!("pid-{rows}-{columns}"));
        let binary = env!("CARGO_BIN_EXE_longhaul");
        let script = format!(
            "sh -c 'echo $$ >{pid_file}; exec env {}'; echo code=$?; stty -a; sleep 60",
            command.replace("longhaul ", &format!("{binary} ")),
        );
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(rows, columns)).unwrap();
        let shell = pty_process::blocking::Command::new("sh")
            .arg("-c")
            .arg(script);
        let shell = shell.current_dir(&scratch.0).env("TERM", "xterm-256color");
        let shell = shell.env_remove("NO_COLOR").spawn(pts).unwrap();
        let copy = |pty: &pty_process::blocking::Pty| -> OwnedFd {
            pty.as_fd().try_clone_to_owned().unwrap()
        };
        let (mut reader, input) = (fs::File::from(copy(&pty)), fs::File::from(copy(&pty)));
        let (chunks, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 65536];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if chunks.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            pty,
            input,
            output,
            bytes: Vec::new(),
            screen: vt100::Parser::new(size(rows), size(columns), 0),
            shell,
            pid_file,
        }
    }

    pub(crate) fn keys(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        self.pty
            .resize(pty_process::Size::new(rows, columns))
            .unwrap();
        self.screen.set_size(size(rows), size(columns));
    }

    /// The process that runs in it.
    pub(crate) fn pid(&self) -> u32 {
        wait_for("the process", || {
            fs::read_to_string(&self.pid_file).ok()?.trim().parse().ok()
        })
    }

    /// Waits until the screen shows what is asked for, and gives it.
    pub(crate) fn until(&mut self, what: &str, shows: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let contents = self.screen.screen().contents();
            if shows(&contents) {
                return contents;
            }
            assert!(begun.elapsed() < PATIENCE, "no {what}:\n{contents}");
            if let Ok(chunk) = self.output.recv_timeout(Duration::from_millis(100)) {
                self.screen.process(&chunk);
                self.bytes.extend(chunk);
            }
        }
    }

    /// Waits until all of these are on the screen. Output comes in pieces, so a screen may be half drawn: one part
    /// says nothing of another.
    pub(crate) fn until_all(&mut self, parts: &[&str]) {
        self.until(&parts.join(", "), |screen| {
            parts.iter().all(|part| screen.contains(part))
        });
    }

    /// Waits for the end of the command, which must leave the terminal as it was, and gives its exit code.
    pub(crate) fn end(&mut self) -> i32 {
        let contents = self.until("end", |screen| {
            screen.contains("code=") && screen.contains("-extproc")
        });
        let screen = self.screen.screen();
        assert!(
            !screen.alternate_screen() && !screen.hide_cursor(),
            "{contents}"
        );
        let words: Vec<&str> = contents.split_whitespace().collect();
        for setting in ["icanon", "echo", "isig", "opost"] {
            assert!(words.contains(&setting), "{setting} is off: {contents}");
        }
        let code = contents.split("code=").nth(1).unwrap();
        code.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
