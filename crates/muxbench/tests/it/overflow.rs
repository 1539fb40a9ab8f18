//! Overflow of the kernel's queue of signals, which are the events of `rt-signal`.

use std::io::{Read, Write};
use std::net::Shutdown;

use crate::cases::{Cases, case};
use crate::common::{Serve, exchange};
use rustix::process::Resource;

/// A queue of length one overflows at nearly each event, a short queue at some events.
fn rescans_replace_lost_signals() {
    for signals_max in [1, 3] {
        let limit = Some((Resource::Sigpending, signals_max));
        let serve = Serve::start_limited("rt-signal".parse().unwrap(), 100, 100_000, &[], limit);
        let mut streams: Vec<_> = (0..50).map(|_| serve.connect()).collect();
        for _ in 0..3 {
            // Send all requests at once, so that events arrive while the server is busy.
            for stream in &mut streams {
                stream.write_all(&[1; 100]).unwrap();
            }
            for stream in &mut streams {
                stream.read_exact(&mut [0; 100_000]).unwrap();
            }
        }
        // Send the last request and the end of the stream together.
        for stream in &mut streams {
            stream.write_all(&[1; 100]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), 100_000);
        }
        exchange(&mut serve.connect(), 100, 100_000);
        serve.settle();
        let (status, totals) = serve.stop();
        assert!(status.success(), "{status}");
        assert_eq!(totals["requests"], 201);
        assert!(totals["syscalls"]["rescan"].as_u64().unwrap() > 0, "{signals_max}: {totals}");
    }
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    cases.once(case!(rescans_replace_lost_signals));
}
