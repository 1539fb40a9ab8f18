//! Processes that end with this one. Linux (PR_SET_PDEATHSIG) kills a child when the thread that forked it ends. So one thread,
//! which lives as long as the process, starts all children.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{LazyLock, mpsc};
use std::{io, thread};

use rustix::process::Signal;

use crate::platform;

type Task = Box<dyn FnOnce() + Send>;

/// The tasks of the forking thread; `None` if it could not be created.
static TASKS: LazyLock<Option<mpsc::Sender<Task>>> = LazyLock::new(|| {
    let (tasks, received) = mpsc::channel::<Task>();
    let forker = thread::Builder::new().name("spawn".into());
    forker.spawn(move || received.into_iter().for_each(|task| task())).ok().map(|_| tasks)
});

/// Starts a command on the CPUs of the calling thread. If the system supports it, the command is killed when this process ends.
pub fn spawn(mut command: Command) -> io::Result<Child> {
    let parent = rustix::process::getpid();
    let end_with_parent = move || {
        platform::die_with_parent(Signal::KILL)?;
        // The parent may have ended before the line above.
        let is_orphan = rustix::process::getppid() != Some(parent);
        if is_orphan { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(end_with_parent) };
    let cpus = platform::cpus();
    let (sender, started) = mpsc::channel();
    let task = move || {
        let child = platform::pin(&cpus).and_then(|()| command.spawn());
        // Close this process's copies of the child's pipes, so that the caller sees their end.
        drop(command);
        let _ = sender.send(child);
    };
    let no_thread =
        || io::Error::other("cannot create the thread that starts processes; raise the limit of processes (ulimit -u)");
    let tasks = TASKS.as_ref().ok_or_else(no_thread)?;
    tasks.send(Box::new(task)).map_err(|_| no_thread())?;
    started.recv().map_err(|_| no_thread())?
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn child_outlives_the_thread_that_started_it() {
        let start = || {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            spawn(command).unwrap()
        };
        let mut child = thread::spawn(start).join().unwrap();
        // If the thread's end killed the child, it would do so within this time.
        thread::sleep(std::time::Duration::from_millis(100));
        let written = child.stdin.take().unwrap().write_all(b"I live\n");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        written.unwrap();
        // Servers of other tests reap all children of this process, so this may find none.
        let _ = child.wait();
        assert_eq!(line, "I live\n");
        assert!(spawn(Command::new("/nonexistent")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn child_starts_on_the_cpus_of_the_calling_thread() {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| set.is_set(cpu)).unwrap();
        let start = move || {
            platform::pin(&[last]).unwrap();
            let mut command = Command::new("grep");
            command.args(["Cpus_allowed_list", "/proc/self/status"]).stdout(Stdio::piped());
            spawn(command).unwrap()
        };
        let mut child = thread::spawn(start).join().unwrap();
        let allowed = io::read_to_string(child.stdout.take().unwrap()).unwrap();
        let _ = child.wait();
        assert_eq!(allowed.split_whitespace().last(), Some(&*last.to_string()), "{allowed}");
    }
}
