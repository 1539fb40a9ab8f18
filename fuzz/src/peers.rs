//! Messages between workers, and descriptions of servers. A message must survive reading and writing.

/// Reads a frame of a known or unknown worker, and the JSON that frames contain.
pub fn frame(data: &[u8]) {
    for is_known in [false, true] {
        if let Some(written) = harness::fleet::reencode(data, is_known) {
            assert_eq!(harness::fleet::reencode(&written, is_known).as_ref(), Some(&written));
        }
    }
    crate::files::read_and_write::<harness::model::LoadOrder>(data);
    crate::files::read_and_write::<load::Event>(data);
}

/// Reads a server's description.
pub fn description(data: &[u8]) {
    use harness::description::Description;
    if let Some(description) = Description::read(data) {
        let line = description.line().expect("a description that was read can be written");
        assert_eq!(Description::read(line.as_bytes()).as_ref(), Some(&description), "of {line}");
        let _ = (description.check_sizes(), description.check(&description.service));
    }
}
