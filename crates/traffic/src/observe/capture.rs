//! TCP packets of a capture in the format pcap or pcapng.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, anyhow, bail};
use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_parser::pcapng::Block;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError, create_reader};

/// The bytes of the file in memory at a time. A packet is shorter.
const BUFFER_BYTES: usize = 1 << 20;
/// The bytes before the packet in the Linux "cooked" formats, and the position of the protocol in them.
const SLL: (usize, usize) = (16, 14);
const SLL2: (usize, usize) = (20, 0);
/// The bytes before the packet of a BSD loopback interface.
const NULL_BYTES: usize = 4;

/// A TCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The time of the capture, since an arbitrary moment.
    pub at_ns: u64,
    /// The sender.
    pub source: SocketAddr,
    /// The receiver.
    pub destination: SocketAddr,
    /// The sequence number of the first byte.
    pub sequence: u32,
    /// The bytes of payload on the wire, of which the capture may have fewer.
    pub bytes: u32,
    /// The packet opens a connection.
    pub syn: bool,
    /// The packet acknowledges data.
    pub ack: bool,
    /// The packet ends one direction of a connection.
    pub fin: bool,
    /// The packet resets a connection.
    pub rst: bool,
}

/// The unit of times, and the offset of times in seconds.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Linktype,
    units_per_s: u64,
    offset_s: i64,
}

/// Passes all TCP packets of a capture, in their order. Returns whether the capture ends within a packet.
pub fn read(input: impl Read + Send, mut each: impl FnMut(&Packet)) -> anyhow::Result<bool> {
    let mut reader = create_reader(BUFFER_BYTES, input)
        .map_err(|_| anyhow!("not a pcap or pcapng file; capture one with `tcpdump -s 100 -w FILE tcp port PORT`"))?;
    let mut interfaces: Vec<Interface> = Vec::new();
    loop {
        let length = match reader.next() {
            Ok((length, block)) => {
                parse_block(&block, &mut interfaces)?.iter().for_each(&mut each);
                length
            }
            Err(PcapError::Eof) => return Ok(false),
            Err(PcapError::UnexpectedEof) => return Ok(true),
            Err(PcapError::Incomplete(_)) => {
                let before = reader.data().len();
                reader.refill().map_err(|_| anyhow!("a part cannot be read; check the disk"))?;
                if reader.data().len() == before && !reader.reader_exhausted() {
                    bail!("a block is larger than {} MiB; capture again", BUFFER_BYTES >> 20);
                }
                continue;
            }
            // The error contains the rest of the file.
            Err(_) => bail!("invalid data after byte {}; capture again", reader.consumed()),
        };
        reader.consume(length);
    }
}

/// Returns the units of time per second of the option `if_tsresol`: a power of ten, or of two if the highest bit is set.
fn units_per_s(resolution: u8) -> Option<u64> {
    let power = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 { 10u64.checked_pow(power) } else { 1u64.checked_shl(power) }
}

/// Returns the TCP packet of a block, if it has one. Adds the interface of a block that describes one.
fn parse_block(block: &PcapBlockOwned<'_>, interfaces: &mut Vec<Interface>) -> anyhow::Result<Option<Packet>> {
    let (interface, at, data) = match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let units_per_s = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            interfaces.push(Interface { link: header.network, units_per_s, offset_s: 0 });
            return Ok(None);
        }
        PcapBlockOwned::Legacy(packet) => {
            (interfaces.first().copied(), Some((u64::from(packet.ts_sec), u64::from(packet.ts_usec))), packet.data)
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            interfaces.clear();
            return Ok(None);
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(it)) => {
            let units_per_s = units_per_s(it.if_tsresol).context("invalid resolution of times; capture again")?;
            interfaces.push(Interface { link: it.linktype, units_per_s, offset_s: it.ts_offset() });
            return Ok(None);
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let interface = interfaces.get(packet.if_id as usize).copied();
            let units = (u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low);
            let at = interface.map(|it| (units / it.units_per_s, units % it.units_per_s));
            (interface, at, &packet.data[..packet.data.len().min(packet.caplen as usize)])
        }
        PcapBlockOwned::NG(Block::SimplePacket(_)) => {
            bail!("its packets have no times; capture with tcpdump or dumpcap")
        }
        PcapBlockOwned::NG(_) => return Ok(None),
    };
    let (Some(interface), Some((seconds, units))) = (interface, at) else {
        bail!("a packet has no interface; capture again")
    };
    let seconds = seconds.saturating_add_signed(interface.offset_s);
    let part_ns = u128::from(units) * 1_000_000_000 / u128::from(interface.units_per_s);
    let at_ns = seconds.saturating_mul(1_000_000_000).saturating_add(part_ns as u64);
    Ok(sliced(interface.link, data)?.as_ref().and_then(|sliced| tcp_packet(sliced, at_ns)))
}

/// Returns the headers of a packet, if it has some.
fn sliced(link: Linktype, data: &[u8]) -> anyhow::Result<Option<LaxSlicedPacket<'_>>> {
    let cooked = |(length, protocol): (usize, usize)| {
        let kind = data.get(protocol..protocol + 2)?;
        let kind = EtherType(u16::from_be_bytes([kind[0], kind[1]]));
        Some(LaxSlicedPacket::from_ether_type(kind, data.get(length..)?))
    };
    Ok(match link {
        Linktype::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => LaxSlicedPacket::from_ip(data).ok(),
        Linktype::NULL | Linktype::LOOP => data.get(NULL_BYTES..).and_then(|data| LaxSlicedPacket::from_ip(data).ok()),
        Linktype::LINUX_SLL => cooked(SLL),
        Linktype::LINUX_SLL2 => cooked(SLL2),
        other => {
            bail!("unknown type of interface {}; capture on an Ethernet interface, or with `tcpdump -i any`", other.0)
        }
    })
}

/// Returns the TCP packet, unless it lacks headers or is a fragment.
fn tcp_packet(sliced: &LaxSlicedPacket<'_>, at_ns: u64) -> Option<Packet> {
    let (source, destination, declared): (IpAddr, IpAddr, usize) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let bytes = usize::from(header.total_len()).saturating_sub(header.slice().len());
            (header.source_addr().into(), header.destination_addr().into(), bytes)
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            (header.source_addr().into(), header.destination_addr().into(), header.payload_length().into())
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { return None };
    let captured = sliced.net.as_ref()?.ip_payload_ref()?;
    // A capture may have only the first bytes of each packet. The header has the length.
    let length = if captured.incomplete { declared } else { captured.payload.len() };
    let port = |address: IpAddr, port: u16| SocketAddr::new(address, port);
    Some(Packet {
        at_ns,
        source: port(source, tcp.source_port()),
        destination: port(destination, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        bytes: length.saturating_sub(tcp.header_len()) as u32,
        syn: tcp.syn(),
        ack: tcp.ack(),
        fin: tcp.fin(),
        rst: tcp.rst(),
    })
}
