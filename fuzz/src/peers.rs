//! Ranks as they hear each other, and clients as they hear a server say what it serves: what is understood is said the same.

/// A frame of another rank, known or not, and what is JSON in one.
pub fn frame(data: &[u8]) {
    for is_known in [false, true] {
        if let Some(said) = harness::fleet::reencode(data, is_known) {
            assert_eq!(harness::fleet::reencode(&said, is_known).as_ref(), Some(&said));
        }
    }
    crate::files::written_as_read::<harness::model::LoadOrder>(data);
    crate::files::written_as_read::<load::Event>(data);
}

/// A server's description of itself.
pub fn description(data: &[u8]) {
    use harness::description::Description;
    if let Some(description) = Description::read(data) {
        let line = description.line().expect("what was read can be said");
        assert_eq!(Description::read(line.as_bytes()).as_ref(), Some(&description), "of {line}");
        let _ = (description.check_sizes(), description.check(&description.service));
    }
}
