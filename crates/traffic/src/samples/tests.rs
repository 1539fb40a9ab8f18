use std::fs::File;
use std::io;

use super::*;
use crate::columnar::TAIL_BYTES;
use crate::columnar::column::tests::{dictionary, page};
use crate::columnar::thrift::tests::{Field, varint_of, written};

/// A row group of a footer: its rows, and the offset and length of each column.
type RowGroup = (i64, [(i64, i64); 10]);

/// An uncompressed file with these bytes and groups.
fn file_of(bytes: &[u8], groups: &[RowGroup]) -> Vec<u8> {
    let schema = parse_message_type(SCHEMA).unwrap();
    let names = [
        "planned_ns",
        "sent_ns",
        "complete_ns",
        "connection",
        "scheduler_ns",
        "driver_ns",
        "arrived_ns",
        "hardware_service_ns",
        "client",
        "counted",
    ];
    let columns = names.iter().zip(schema.get_fields()).map(|(name, ours)| {
        let is_optional = i64::from(ours.is_optional());
        vec![(1, Field::Number(2)), (3, Field::Number(is_optional)), (4, Field::Bytes(name.as_bytes()))]
    });
    let root = vec![(4, Field::Bytes(b"samples")), (5, Field::Number(10))];
    let chunk = |&(at, bytes): &(i64, i64)| {
        let about = vec![(4, Field::Number(0)), (7, Field::Number(bytes)), (9, Field::Number(at))];
        vec![(3, Field::Structure(about))]
    };
    let group = |(rows, chunks): &RowGroup| {
        vec![(1, Field::List(chunks.iter().map(chunk).collect())), (3, Field::Number(*rows))]
    };
    let footer = written(&[
        (2, Field::List(std::iter::once(root).chain(columns).collect())),
        (4, Field::List(groups.iter().map(group).collect())),
    ]);
    with_footer(&[b"PAR1", bytes].concat(), &footer)
}

/// A file with these bytes and this footer.
fn with_footer(bytes: &[u8], footer: &[u8]) -> Vec<u8> {
    [bytes, footer, &(footer.len() as u32).to_le_bytes(), b"PAR1"].concat()
}

fn read_bytes(bytes: &[u8]) -> Result<Vec<Sample>, String> {
    read_from(&mut io::Cursor::new(bytes)).map_err(|error| error.to_string())
}

/// Returns the bytes of a group that contains only zeros, and its entry in a footer. The group starts at offset `at`.
fn zeros(rows: i64, at: i64) -> (Vec<u8>, RowGroup) {
    let run = varint_of(rows as u64 * 2);
    let levels = [&(run.len() as u32 + 1).to_le_bytes()[..], &run, &[1]].concat();
    let numbers = [&[0][..], &run].concat();
    let encoded = |is_optional: bool| {
        let page =
            page(rows, 8, &if is_optional { [levels.clone(), numbers.clone()].concat() } else { numbers.clone() });
        [dictionary(1, &[0; 8]), page].concat()
    };
    let (mut bytes, mut chunks) = (Vec::new(), [(0, 0); 10]);
    for (chunk, ours) in chunks.iter_mut().zip(parse_message_type(SCHEMA).unwrap().get_fields()) {
        let column = encoded(ours.is_optional());
        *chunk = (at + bytes.len() as i64, column.len() as i64);
        bytes.extend(column);
    }
    (bytes, (rows, chunks))
}

#[test]
fn uncompressed_file_is_read() {
    let (bytes, group) = zeros(1_000, 4);
    let samples = read_bytes(&file_of(&bytes, &[group])).unwrap();
    assert_eq!(samples.len(), 1_000);
    assert_eq!((samples[999].planned_ns, samples[999].complete_ns, samples[999].client), (0, 0, 0));
    assert_eq!(read_bytes(&file_of(b"", &[])).unwrap(), []);
    assert_eq!(read_bytes(&file_of(&bytes[1..], &[group])).unwrap_err(), FOREIGN);
}

#[test]
fn endless_lists_of_booleans_are_refused() {
    // Fields 9, 18 and so on are lists of 2^31 - 1 booleans each, for which the crate `parquet` reads no byte.
    let booleans = [0x99, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    let footer = [&booleans.repeat(500)[..], &[0]].concat();
    assert_eq!(read_bytes(&with_footer(b"PAR1", &footer)).unwrap_err(), FOREIGN);
    let (bytes, mut group) = zeros(1_000, 4);
    group.1[0] = (4, booleans.len() as i64);
    assert_eq!(read_bytes(&file_of(&[&booleans[..], &bytes].concat(), &[group])).unwrap_err(), FOREIGN);
}

#[test]
fn groups_may_not_share_bytes() {
    let (bytes, group) = zeros(100, 4);
    let file = file_of(&bytes, &[group; 20]);
    let groups = file.len() / bytes.len();
    assert!(groups < 20, "the file has room for {groups} of its 20 groups");
    assert_eq!(read_bytes(&file).unwrap_err(), FOREIGN);
    let (other, beside) = zeros(100, 4 + bytes.len() as i64);
    assert_eq!(read_bytes(&file_of(&[bytes, other].concat(), &[group, beside])).unwrap().len(), 200);
}

#[test]
fn small_file_with_many_rows_is_refused() {
    let (bytes, group) = zeros(1_000_000, 4);
    let (other, beside) = zeros(1_000_000, 4 + bytes.len() as i64);
    let file = file_of(&[bytes, other].concat(), &[group, beside]);
    assert!(file.len() < 2_000, "{}", file.len());
    assert_eq!(read_bytes(&file).unwrap_err(), FOREIGN);
    let (bytes, group) = zeros(ROWS_PER_GROUP as i64 + 1, 4);
    assert_eq!(read_bytes(&file_of(&bytes, &[group])).unwrap_err(), FOREIGN);
}

#[test]
fn columns_and_footers_outside_the_file_are_refused() {
    let (bytes, group) = zeros(10, 4);
    for (at, length) in [(-1, 10), (4, -1), (4, i64::MAX), (i64::MAX, 10), (1 << 20, 10)] {
        let mut group = group;
        group.1[3] = (at, length);
        assert!(read_bytes(&file_of(&bytes, &[group])).is_err(), "{at} {length}");
    }
    let mut file = file_of(&bytes, &[group]);
    let at = file.len() - TAIL_BYTES;
    file[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(read_bytes(&file).unwrap_err(), FOREIGN);
    assert_eq!(read_bytes(b"PAR1").unwrap_err(), FOREIGN);
}

#[test]
fn nested_groups_in_a_schema_are_refused() {
    let element = |name: &'static [u8], fields: Vec<(i64, Field)>| {
        fields.into_iter().chain([(4, Field::Bytes(name))]).collect::<Vec<_>>()
    };
    // The schema nests groups that each claim two billion children.
    let nested = || element(b"planned_ns", vec![(3, Field::Number(0)), (5, Field::Number(i64::from(i32::MAX)))]);
    let footer = written(&[(2, Field::List((0..1_000).map(|_| nested()).collect())), (4, Field::List(vec![]))]);
    assert_eq!(read_bytes(&with_footer(b"PAR1", &footer)).unwrap_err(), FOREIGN);
}

#[test]
fn large_file_reads_back_as_written() {
    // The values exceed a dictionary and fill several pages.
    let sample = |at: i64| Sample {
        planned_ns: at * 12_345 - 7,
        sent_ns: if at % 4_001 == 0 { Sample::NEVER } else { at * 12_345 + at % 977 },
        complete_ns: if at / 30_000 % 2 == 0 { Sample::NEVER } else { at * 12_345 + 30_000 + at * at % 10_007 },
        connection: (at % 300) as u32,
        client: u32::MAX,
        ..Sample::UNKNOWN
    };
    let samples: Vec<Sample> = (0..200_000).map(sample).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    write(File::create(&path).unwrap(), &samples, &[]).unwrap();
    assert!(read(&path).unwrap() == samples);
}

#[test]
fn written_file_exceeds_two_bytes_per_three_rows() {
    // Files are small with a constant schedule and no sent request.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    for period_ns in [1, 1_000, 1 << 16, 1_000_000] {
        let sample = |at: i64| Sample { planned_ns: at * period_ns, ..Sample::UNKNOWN };
        let samples: Vec<Sample> = (0..200_000).map(sample).collect();
        write(File::create(&path).unwrap(), &samples, &[]).unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!(bytes > samples.len() as u64, "{bytes} bytes, every {period_ns} ns");
    }
    // Files can be even smaller if requests of many connections have the same planned time.
    for together in [2, 16, 64, 400, 10_000] {
        let sample = |at: i64| Sample {
            planned_ns: at / together * 1_000_000,
            connection: (at % together) as u32,
            ..Sample::UNKNOWN
        };
        let samples: Vec<Sample> = (0..200_000).map(sample).collect();
        write(File::create(&path).unwrap(), &samples, &[]).unwrap();
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert!(bytes * 3 > samples.len() as u64 * 2, "{bytes} bytes, {together} at once");
    }
}

#[test]
fn samples_read_back_as_written() {
    let samples: Vec<Sample> = (0..1000)
        .map(|at| Sample {
            planned_ns: at * 1000,
            sent_ns: if at % 13 == 0 { Sample::NEVER } else { at * 1000 + 7 },
            complete_ns: if at % 5 == 0 { Sample::NEVER } else { at * 1000 + 50_000 },
            driver_ns: if at % 3 == 0 { Sample::NEVER } else { at * 1000 + 8 },
            connection: (at % 7) as u32,
            client: (at % 2) as u32,
            ..Sample::UNKNOWN
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    write(File::create(&path).unwrap(), &samples, &[("architecture", "epoll".into())]).unwrap();
    assert_eq!(read(&path).unwrap(), samples);
    assert_eq!(parameters(&path).unwrap(), [("architecture".to_owned(), "epoll".to_owned())].into());
    write(File::create(&path).unwrap(), &[], &[]).unwrap();
    assert_eq!(read(&path).unwrap(), []);
    assert!(read(&folder.path().join("absent")).unwrap_err().to_string().contains("absent"));
}
