use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use load::Sample;
use parquet::data_type::{DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

use super::*;
use crate::samples;

/// A folder with a file of this name and content.
fn file(name: &str, content: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    (folder, path)
}

/// Writes a Parquet file with one group, whose columns `fill` writes.
fn write(path: &Path, schema: &str, fill: impl FnOnce(&mut SerializedRowGroupWriter<'_, fs::File>)) {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = fs::File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::default())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    fill(&mut group);
    group.close().unwrap();
    writer.close().unwrap();
}

/// Writes the next column of a group.
fn column<T: DataType>(group: &mut SerializedRowGroupWriter<'_, fs::File>, values: &[T::T], levels: Option<&[i16]>) {
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<T>().write_batch(values, levels, None).unwrap();
    column.close().unwrap();
}

fn scan(path: &Path, from_ns: u64, length_ns: Option<u64>, speed: f64) -> anyhow::Result<Trace> {
    super::scan(path, (from_ns, length_ns), speed, &[], &|_| None)
}

/// The times and connections of a replay.
fn replayed(trace: &Trace) -> Vec<(f64, Option<u64>)> {
    replay(trace).unwrap().map(|arrival| arrival.map(|it| (it.at_ns, it.connection)).unwrap()).collect()
}

#[test]
fn part_of_a_file_is_replayed_at_its_speed() {
    let (_folder, path) = file("a.csv", "time_ms,connection\n100,0\n200,1\n300,2\n400,3\n450,4\n");
    let whole = scan(&path, 0, None, 1.0).unwrap();
    assert_eq!((whole.requests, whole.length_ns, whole.has_connections), (5, 437_500_000, true));
    assert_eq!(replayed(&whole)[4], (350e6, Some(4)));
    let part = scan(&path, 100_000_000, Some(200_000_000), 2.0).unwrap();
    assert_eq!((part.requests, part.window_ns(), part.rate_per_s()), (2, 100_000_000, 20.0));
    assert_eq!(replayed(&part), [(0.0, Some(1)), (50e6, Some(2))]);
    assert!(part.sizes.is_empty());
    let gap = scan(&path, 250_000_000, None, 1.0).unwrap();
    assert_eq!(replayed(&gap), [(50e6, Some(3)), (100e6, Some(4))], "times count from the start of the part");
}

#[test]
fn trace_without_a_length_has_the_rate_of_its_intervals() {
    // After an arrival and a pause of a second, ten arrivals a second.
    let times: String = (0..20).map(|at| format!("{}\n", if at == 0 { 0 } else { 900 + 100 * at })).collect();
    let (_folder, path) = file("a.csv", &format!("time_ms\n{times}"));
    let part = scan(&path, 1_000_000_000, None, 1.0).unwrap();
    assert_eq!((part.requests, part.length_ns, part.rate_per_s()), (19, 1_900_000_000, 10.0));
    let gap = scan(&path, 500_000_000, None, 1.0).unwrap();
    assert_eq!((gap.requests, gap.length_ns), (19, 2_400_000_000), "the pause before the first arrival is no interval");
    let last = format!("{:#}", scan(&path, 2_750_000_000, None, 1.0).unwrap_err());
    assert!(last.ends_with("has only one time in this part; set the length of the part"), "{last}");
}

#[test]
fn peak_is_the_part_with_the_most_arrivals() {
    // One arrival a second, and ten a second from 300 s to 400 s.
    let times = (0..300).map(f64::from).chain((0..1_000).map(|at| 300.0 + f64::from(at) / 10.0)).chain([400.0, 900.0]);
    let (_folder, path) = file("a.csv", &times.map(|time| format!("{time}\n")).collect::<String>());
    let second = 1_000_000_000;
    assert_eq!(peak_ns(&path, 100 * second).unwrap(), 300 * second);
    assert_eq!(peak_ns(&path, 10_000 * second).unwrap(), 0, "the whole file");
    let narrow = peak_ns(&path, 50 * second).unwrap();
    assert!((300 * second..=350 * second).contains(&narrow), "{narrow}");
}

#[test]
fn sizes_of_a_part_are_collected() {
    let (_folder, path) = file("a.csv", "time,response_bytes,request_bytes\n0,500,1\n1,10,0\n2,500,1\n9,7,3\n");
    let sizes = |request, response| Sizes { request_bytes: Some(request), response_bytes: Some(response) };
    let trace = scan(&path, 0, Some(5_000_000_000), 1.0).unwrap();
    assert_eq!((trace.requests, trace.sizes.as_slice()), (3, &[sizes(0, 10), sizes(1, 500)][..]));
    let replayed = |trace: &Trace| replay(trace).unwrap().map(|arrival| arrival.unwrap().sizes).collect::<Vec<_>>();
    assert_eq!(replayed(&trace), [sizes(1, 500), sizes(0, 10), sizes(1, 500)]);
    let without = super::scan(&path, (0, None), 1.0, &[Column::RequestBytes], &|_| None).unwrap();
    assert_eq!((without.sizes.len(), replayed(&without)[3].request_bytes), (3, None));
    let refusal = |column| (column == Column::RequestBytes).then_some("no bodies");
    let error = format!("{:#}", super::scan(&path, (0, None), 1.0, &[], &refusal).unwrap_err());
    assert!(error.starts_with("cannot replay the column request_bytes of /"), "{error}");
    assert!(error.ends_with("a.csv: no bodies; or ignore it with --trace-ignore request_bytes"), "{error}");
    assert!(super::scan(&path, (0, None), 1.0, &[Column::RequestBytes], &refusal).is_ok());
    let rows: String = (0..=SIZES_MAX).map(|at| format!("{at},{at}\n")).collect();
    let (_folder, path) = file("a.csv", &format!("time,bytes\n{rows}"));
    let error = format!("{:#}", scan(&path, 0, None, 1.0).unwrap_err());
    assert!(error.ends_with("has more than 10000 pairs of sizes of requests and responses; round them"), "{error}");
}

#[test]
fn changed_file_is_found() {
    let rows = "time,connection,bytes\n0,1,500\n1,2,10\n2,1,500\n";
    let (_folder, path) = file("a.csv", rows);
    let part = scan(&path, 1_000_000_000, Some(1_500_000_000), 2.0).unwrap();
    let sizes = super::scan(&path, (0, None), 1.0, &[Column::Connection], &|_| None).unwrap();
    let check = || [&part, &sizes].map(|trace| check(trace).map_err(|error| format!("{error:#}")));
    assert_eq!(check(), [Ok(()), Ok(())]);
    for changed in [rows.replace("2,1,500\n", ""), rows.replace("2,1,500", "2,1,501"), rows.replace(",bytes", ",other")]
    {
        fs::write(&path, changed).unwrap();
        assert!(check().iter().all(|found| found.as_ref().is_err_and(|error| error.ends_with("a.csv has changed"))));
    }
    fs::remove_file(&path).unwrap();
    assert!(check().iter().all(|found| found.as_ref().is_err_and(|error| error.contains("a.csv: No such file"))));
}

#[test]
fn unusable_file_is_rejected_with_a_remedy() {
    let error = |content: &str, from_ns, length_ns| {
        let (_folder, path) = file("a.csv", content);
        format!("{:#}", scan(&path, from_ns, length_ns, 1.0).unwrap_err())
    };
    assert!(error("1\n3\n2\n", 0, None).ends_with("row 3 is earlier than the row before; sort the file by time"));
    assert!(
        error("1\n2\n", 5_000_000_000, None).ends_with("has no arrival in this part; change its start or its length")
    );
    assert!(error("1\n1\n", 0, None).ends_with("has only one time in this part; set the length of the part"));
    assert!(error("1\nx\n", 0, None).contains("a.csv: line 2: invalid time `x`"), "{}", error("1\nx\n", 0, None));
    assert!(error("PAR1 or not", 0, None).contains("not a flat Parquet file; write"));
    let absent = format!("{:#}", scan(Path::new("absent.csv"), 0, None, 1.0).unwrap_err());
    assert!(absent.contains("cannot read ") && absent.contains("absent.csv: No such file"), "{absent}");
}

#[test]
fn samples_of_a_run_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("samples.parquet");
    // More rows than a group has.
    let count = (1 << 20) + 1_000;
    let sample = |at: i64| Sample { planned_ns: 7 + at * 1_000, connection: (at % 300) as u32, ..Sample::UNKNOWN };
    samples::write(fs::File::create(&path).unwrap(), &(0..count).map(sample).collect::<Vec<_>>(), &[]).unwrap();
    let trace = scan(&path, 0, None, 1.0).unwrap();
    assert_eq!((trace.requests, trace.length_ns, trace.has_connections), (count as u64, count as u64 * 1_000, true));
    for (at, arrival) in (0..).zip(replay(&trace).unwrap()) {
        let connection = Some(at as u64 % 300);
        let expected = Arrival { at_ns: (at * 1_000) as f64, connection, sizes: Sizes::default() };
        assert_eq!(arrival.unwrap(), expected);
    }
    let peak = scan(&path, 1_048_000_000, Some(1_000_000), 1.0).unwrap();
    assert_eq!((peak.requests, replayed(&peak).len()), (1_000, 1_000));
}

#[test]
fn columns_of_other_programs_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let read = |schema: &str| {
        let path = folder.path().join("other.parquet");
        write(&path, schema, |group| {
            column::<Int32Type>(group, &[3, 4], Some(&[1, 1]));
            column::<DoubleType>(group, &[10.25, 10.5], Some(&[1, 1]));
        });
        scan(&path, 0, None, 1.0).map(|trace| replayed(&trace)).map_err(|error| format!("{error:#}"))
    };
    let both = read("message it { optional int32 connection; optional double time_ms; }");
    assert_eq!(both, Ok(vec![(0.0, Some(3)), (250_000.0, Some(4))]));
    let other = read("message it { optional int32 size; optional double time; }");
    assert_eq!(other, Ok(vec![(0.0, None), (250_000_000.0, None)]), "seconds without a unit");
    let error = read("message it { optional int32 time; optional double bytes; }").unwrap_err();
    assert!(
        error.ends_with("row 1 has no valid response_bytes; ignore it with --trace-ignore response_bytes"),
        "{error}"
    );
    let error = read("message it { optional int32 size; optional double other; }").unwrap_err();
    assert!(error.contains("no column of times; name one time_s"), "{error}");
}

#[test]
fn timestamps_have_the_unit_of_their_type() {
    let folder = tempfile::tempdir().unwrap();
    for (unit, ns) in [("MILLIS", 1_000_000.0), ("MICROS", 1_000.0), ("NANOS", 1.0)] {
        let path = folder.path().join("other.parquet");
        let schema = format!("message it {{ required int64 timestamp (TIMESTAMP({unit},true)); }}");
        write(&path, &schema, |group| column::<Int64Type>(group, &[5, 7], None));
        let trace = scan(&path, 0, None, 1.0).unwrap();
        assert_eq!(replayed(&trace), [(0.0, None), (2.0 * ns, None)], "{unit}");
    }
}
