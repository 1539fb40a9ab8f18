use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use wire::fixed::Fixed;

use super::*;
use crate::net::OnDrop;
use crate::net::connection::Connect;

#[test]
fn a_job_with_more_bytes_goes_to_the_next_payload_thread() {
    let (service, home) = (Fixed::new(1, 1), Mailbox::new().unwrap());
    let queues = [Jobs::new(), Jobs::new()];
    let (mut client, ours) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (mut buffer, counters) = (ReadBuffer::new(ReadBudget::default()), Counters::default());
    let mut network = HandOff::new(&queues, &home, ReadBudget::default());
    let tenant = network.admit(ours.into(), Token::LISTENER, service.connect());
    let mut send = |client: &mut UnixStream| {
        client.write_all(b"r").unwrap();
        network.on_readable(&mut tenant.clone(), &mut buffer, &counters)
    };
    send(&mut client);
    assert_eq!([queues[0].len(), queues[1].len()], [0, 1]);

    thread::scope(|scope| {
        let _close = OnDrop(|| queues.iter().for_each(Jobs::close));
        // The payload thread takes the first request, and waits for the connection until the second one has come.
        let locked = lock(&tenant.connection);
        scope.spawn(|| work(&queues, 1, ThreadControl::default(), &Counters::default()));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !lock(&tenant.unserved).bytes.is_empty() {
            assert!(Instant::now() < deadline, "the payload thread took no job");
            thread::yield_now();
        }
        send(&mut client);
        drop(locked);
        client.read_exact(&mut [0]).unwrap();
        while queues[0].len() == 0 {
            assert!(Instant::now() < deadline, "the job was not queued again for the other thread");
            thread::yield_now();
        }
    });
}
