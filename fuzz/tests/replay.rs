//! Replays the corpus: inputs that add code coverage, and inputs that once made a parser fail.

use std::path::Path;

use fuzz::TARGETS;

#[test]
fn corpus_of_every_target_is_replayed() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut count = 0;
        for file in files.map(|file| file.unwrap().path()) {
            (target.run)(&std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
            count += 1;
        }
        assert!(count >= 3, "{}: fewer than 3 inputs", folder.display());
    }
}

#[test]
#[cfg(feature = "harness")]
fn every_corpus_has_a_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for folder in std::fs::read_dir(corpus).unwrap() {
        let name = folder.unwrap().file_name();
        assert!(TARGETS.iter().any(|target| name == target.name), "{} has no target", name.display());
    }
}

/// A changed format makes such an input an invalid one, which covers little.
#[test]
#[cfg(feature = "harness")]
fn valid_inputs_are_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let input = |path: &str| std::fs::read(corpus.join(path)).unwrap();
    serde_json::from_slice::<harness::record::TrialRecord>(&input("record/trial")).unwrap();
    serde_json::from_slice::<harness::record::RunHeader>(&input("record/header")).unwrap();
    serde_json::from_slice::<harness::record::LoadOrder>(&input("frame/order")).unwrap();
    traffic::samples::read_from(&mut std::io::Cursor::new(input("samples/valid"))).unwrap();
}
