use std::io::Write;

use etherparse::PacketBuilder;

use super::*;
use crate::observe::estimate::Observation;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// A capture in the format pcap, with Ethernet frames.
struct Capture {
    bytes: Vec<u8>,
    /// The bytes of a frame that the capture keeps.
    kept: usize,
}

/// The flags of a packet.
#[derive(Clone, Copy, PartialEq)]
enum Flag {
    Syn,
    SynAck,
    Ack,
    Fin,
}

impl Capture {
    fn new(kept: usize) -> Self {
        let mut bytes = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, 1] {
            bytes.extend(word.to_le_bytes());
        }
        Self { bytes, kept }
    }

    /// Adds a packet of the client with this port, or of the server to it.
    fn packet(&mut self, at_us: u64, client: u16, is_client: bool, sequence: u32, flag: Flag, payload: usize) {
        let (from, to) = if is_client { (CLIENT, SERVER) } else { (SERVER, CLIENT) };
        let ports = if is_client { (client, 80) } else { (80, client) };
        let tcp = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(from, to, 64).tcp(ports.0, ports.1, sequence, 1_000);
        let tcp = match flag {
            Flag::Syn => tcp.syn(),
            Flag::SynAck => tcp.syn().ack(1),
            Flag::Ack => tcp.ack(1),
            Flag::Fin => tcp.fin().ack(1),
        };
        let mut frame = Vec::new();
        tcp.write(&mut frame, &vec![b'x'; payload]).unwrap();
        let kept = frame.len().min(self.kept);
        for word in [(at_us / 1_000_000) as u32, (at_us % 1_000_000) as u32, kept as u32, frame.len() as u32] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(&frame[..kept]);
    }

    /// Adds a connection with requests of 100 bytes and responses of 2500 bytes in two segments. The server takes 300 µs, and the
    /// client pauses for 9 ms.
    fn session(&mut self, begin_us: u64, client: u16, requests: u32) {
        self.packet(begin_us, client, true, 999, Flag::Syn, 0);
        self.packet(begin_us + 100, client, false, u32::MAX - 50, Flag::SynAck, 0);
        self.packet(begin_us + 200, client, true, 1_000, Flag::Ack, 0);
        // The server's sequence numbers wrap.
        let server = |sent: u32| (u32::MAX - 49).wrapping_add(sent);
        for at in 0..requests {
            let now = begin_us + 1_000 + u64::from(at) * 9_310;
            self.packet(now, client, true, 1_000 + 100 * at, Flag::Ack, 100);
            self.packet(now + 300, client, false, server(2_500 * at), Flag::Ack, 1_400);
            self.packet(now + 310, client, false, server(2_500 * at + 1_400), Flag::Ack, 1_100);
            // A retransmission does not count.
            self.packet(now + 320, client, false, server(2_500 * at + 1_400), Flag::Ack, 1_100);
        }
        self.packet(begin_us + 1_000 + u64::from(requests) * 9_310, client, true, 1_000 + 100 * requests, Flag::Fin, 0);
    }

    fn write(&self) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&self.bytes).unwrap();
        file
    }
}

fn observed(capture: &Capture, port: Option<u16>) -> anyhow::Result<Observation> {
    let file = capture.write();
    let (port, traffic) = observe_capture(file.path(), port.and_then(NonZeroU16::new))?;
    Ok(Observation::of(port, &traffic))
}

#[test]
fn capture_has_exact_sizes_counts_and_times() {
    let mut capture = Capture::new(usize::MAX);
    capture.session(5_000_000, 1_001, 10);
    capture.session(5_020_000, 1_002, 20);
    // A refused connection is no connection.
    capture.packet(5_030_000, 1_003, true, 5, Flag::Syn, 0);
    let observed = observed(&capture, None).unwrap();
    assert_eq!(observed.port.get(), 80);
    let requests = observed.requests.unwrap();
    assert_eq!(requests.count, 30);
    assert_eq!((requests.request.bytes, requests.request.is_constant), (100.0, true));
    assert_eq!((requests.response.bytes, requests.response.is_constant), (2_500.0, true));
    assert_eq!((requests.request.segments, requests.response.segments), (1.0, 2.0));
    assert_eq!(requests.per_connection, Some(15.0));
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.002;
    let window_ns = 1e3 * (5_020_000.0 + 1_000.0 + 20.0 * 9_310.0 - 5_000_000.0);
    assert!(near(observed.window_ns as f64, window_ns) && near(requests.rate_per_s, 30e9 / window_ns));
    let (service, pause) = (observed.service.unwrap(), observed.pause.unwrap());
    assert!(service.count == 30 && near(service.p50_ns as f64, 300e3), "{service:?}");
    assert!(pause.count == 28 && near(pause.p50_ns as f64, 9e6), "{pause:?}");
    assert_eq!((observed.connections.opened, observed.connections.ended), (2, 2));
    assert_eq!(observed.connections.open.max, 2);
    assert!(near(observed.round_trip_ns.unwrap() as f64, 200e3));
}

#[test]
fn clock_that_steps_back_counts_as_no_time() {
    let mut capture = Capture::new(usize::MAX);
    capture.session(500_000_000, 1_001, 10);
    capture.session(5_000_000, 1_002, 10);
    let observed = observed(&capture, None).unwrap();
    assert!(observed.window_ns < 300_000_000, "{}", observed.window_ns);
    assert!(observed.unseen.iter().any(|it| it.contains("stepped back by 495.1 s")), "{:?}", observed.unseen);
}

#[test]
fn times_with_a_power_of_two_as_unit_are_read() {
    let mut classic = Capture::new(usize::MAX);
    classic.session(5_000_000, 1_001, 10);
    let block = |kind: u32, body: &[u8]| {
        let length = 12 + body.len().next_multiple_of(4) as u32;
        let words = [kind, length].map(u32::to_le_bytes).concat();
        [&words, body, &vec![0; body.len().next_multiple_of(4) - body.len()], &length.to_le_bytes()[..]].concat()
    };
    let section = block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    // Ethernet, and the option if_tsresol with 2^-20 s.
    let interface = block(1, &[1, 0, 0, 0, 0, 0, 4, 0, 9, 0, 1, 0, 0x80 | 20, 0, 0, 0, 0, 0, 0, 0]);
    let mut bytes = [section, interface].concat();
    let mut packets = &classic.bytes[24..];
    while !packets.is_empty() {
        let word = |at: usize| u32::from_le_bytes(packets[4 * at..4 * at + 4].try_into().unwrap());
        let units = ((u64::from(word(0)) * 1_000_000 + u64::from(word(1))) << 20) / 1_000_000;
        let head = [0, (units >> 32) as u32, units as u32, word(2), word(3)].map(u32::to_le_bytes).concat();
        let end = 16 + word(2) as usize;
        bytes.extend(block(6, &[&head, &packets[16..end]].concat()));
        packets = &packets[end..];
    }
    let next = Capture { bytes, kept: usize::MAX };
    let [classic, next] = [&classic, &next].map(|it| observed(it, None).unwrap());
    assert!(classic.window_ns.abs_diff(next.window_ns) < 2_000, "{} {}", classic.window_ns, next.window_ns);
    assert_eq!(classic.requests.unwrap().count, next.requests.unwrap().count);
}

#[test]
fn cut_packets_count_with_their_length_on_the_wire() {
    let mut capture = Capture::new(64);
    capture.session(0, 1_001, 10);
    let requests = observed(&capture, Some(80)).unwrap().requests.unwrap();
    assert_eq!((requests.count, requests.request.bytes, requests.response.bytes), (10, 100.0, 2_500.0));
    capture.bytes.truncate(capture.bytes.len() - 10);
    let cut = observed(&capture, Some(80)).unwrap();
    assert!(cut.unseen.iter().any(|it| it.contains("ends within a packet")), "{:?}", cut.unseen);
}

#[test]
fn connection_before_the_capture_begins_with_a_request() {
    let mut capture = Capture::new(usize::MAX);
    capture.packet(0, 1_001, false, 7, Flag::Ack, 900);
    for at in 0..5 {
        capture.packet(1_000 + 1_000 * u64::from(at), 1_001, true, 50 + 10 * at, Flag::Ack, 10);
        capture.packet(1_100 + 1_000 * u64::from(at), 1_001, false, 907 + 30 * at, Flag::Ack, 30);
    }
    let observed = observed(&capture, Some(80)).unwrap();
    let requests = observed.requests.unwrap();
    assert_eq!((requests.count, requests.request.bytes, requests.response.bytes), (5, 10.0, 30.0));
    assert_eq!((observed.connections.open.start, observed.connections.opened), (1, 0));
}

#[test]
fn messages_of_varied_sizes_are_counted_by_turns() {
    let mut capture = Capture::new(usize::MAX);
    let (mut client, mut server, mut sizes) = (50, 70, Vec::new());
    for at in 0..50_u32 {
        let (now, request) = (1_000 * u64::from(at), 2_000 + at * at % 97);
        sizes.push(u64::from(request));
        // A request has two segments.
        for half in [request / 2, request - request / 2] {
            capture.packet(now, 1_001, true, client, Flag::Ack, half as usize);
            client += half;
        }
        capture.packet(now + 100, 1_001, false, server, Flag::Ack, (30 + at * at % 89) as usize);
        server += 30 + at * at % 89;
    }
    let observed = observed(&capture, Some(80)).unwrap();
    assert!(!observed.unseen.iter().any(|it| it.starts_with("Single sizes")), "{:?}", observed.unseen);
    let requests = observed.requests.unwrap();
    assert_eq!((requests.count, requests.request.is_constant, requests.request.segments), (50, false, 2.0));
    sizes.sort_unstable();
    let found = requests.request.sizes.unwrap();
    let quantile = |q: f64| stats::quantile(&sizes, q).unwrap();
    assert_eq!((found.count, found.min_bytes, found.max_bytes), (50, sizes[0], sizes[49]));
    let expected = [0.5, 0.9, 0.95, 0.99].map(quantile);
    assert_eq!([found.p50_bytes, found.p90_bytes, found.p95_bytes, found.p99_bytes], expected);
}

#[test]
fn rare_sizes_are_exact_too() {
    let mut capture = Capture::new(usize::MAX);
    let mut server = 70;
    for at in 0..100_u32 {
        // Four responses have other sizes.
        let (now, response) = (1_000 * u64::from(at), if at % 30 == 7 { 70 + at } else { 1_200 });
        capture.packet(now, 1_001, true, 50 + 100 * at, Flag::Ack, 100);
        capture.packet(now + 100, 1_001, false, server, Flag::Ack, response as usize);
        server += response;
    }
    let requests = observed(&capture, Some(80)).unwrap().requests.unwrap();
    assert_eq!((requests.count, requests.request.bytes, requests.request.is_constant), (100, 100.0, true));
    assert_eq!((requests.response.bytes, requests.response.is_constant), (1_156.88, false));
    let sizes = requests.response.sizes.unwrap();
    assert_eq!((sizes.count, sizes.min_bytes, sizes.p50_bytes, sizes.max_bytes), (100, 77, 1_200, 1_200));
}

#[test]
fn pipelined_messages_of_one_size_are_separated() {
    let mut capture = Capture::new(usize::MAX);
    let (mut client, mut server) = (50, 70);
    for at in 0..20_u32 {
        let (now, messages) = (1_000 * u64::from(at), if at % 4 == 0 { 3_u32 } else { 1 });
        capture.packet(now, 1_001, true, client, Flag::Ack, 50 * messages as usize);
        capture.packet(now + 100, 1_001, false, server, Flag::Ack, 400 * messages as usize);
        client += 50 * messages;
        server += 400 * messages;
    }
    let requests = observed(&capture, Some(80)).unwrap().requests.unwrap();
    for (message, bytes) in [(requests.request, 50.0), (requests.response, 400.0)] {
        assert_eq!((requests.count, message.bytes, message.is_constant), (30, bytes, true));
        assert_eq!(message.sizes.unwrap().count, 30);
    }
}

#[test]
fn unusable_captures_are_rejected_with_a_remedy() {
    let error = |capture: &Capture, port| format!("{:#}", observed(capture, port).unwrap_err());
    let mut capture = Capture::new(usize::MAX);
    assert!(error(&capture, None).contains("no connection opens in the capture; name the server's port with --port"));
    capture.session(0, 1_001, 1);
    assert!(error(&capture, Some(81)).contains("has no TCP packets of port 81"));
    // Another server on a port that is a client's.
    let mut two = Capture::new(usize::MAX);
    two.session(0, 1_001, 1);
    let other = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4(CLIENT, SERVER, 64).tcp(1_002, 81, 1, 1_000).syn();
    let mut frame = Vec::new();
    other.write(&mut frame, &[]).unwrap();
    for word in [9, 0, frame.len() as u32, frame.len() as u32] {
        two.bytes.extend(word.to_le_bytes());
    }
    two.bytes.extend(frame);
    assert!(error(&two, None).contains("several ports; choose one with --port (81 has 1, 80 has 1)"));
    let text = Capture { bytes: b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_vec(), kept: 0 };
    assert!(error(&text, None).contains("not a pcap or pcapng file; capture one with"), "{}", error(&text, None));
}
