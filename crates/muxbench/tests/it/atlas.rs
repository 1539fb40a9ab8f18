//! Decision maps: races that do not fit, the rest with more time, and pages of one and of several folders.

use std::path::Path;

use crate::cases::{Cases, case};
use crate::common::muxbench;
use serde_json::Value;

/// Flags of a map of two races, whose three repeats take 4.5 s each. A closed loop with think time needs no punctual client.
const SMALL: &str = "--connections 10,20 --schedule closed --think 20ms --request 1B --response 100B --simulated-work none \
                     --arch epoll,mt --measure 300ms";

fn atlas(folder: &Path, flags: &str) -> (Option<i32>, String, String) {
    let output = muxbench().arg("atlas").args(flags.split_whitespace()).current_dir(folder).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.code(), out, err)
}

/// Returns the repeats of each race of a map.
fn repeats(map: &str) -> Vec<u64> {
    let map: Value = serde_json::from_str(map).unwrap();
    let rows = map["maps"][0]["panels"][0]["rows"].as_array().unwrap();
    rows.iter().map(|row| row["cells"][0][0]["race"]["repeats"].as_u64().unwrap()).collect()
}

fn map_grows_with_its_budget_and_merges() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, err) = atlas(folder.path(), &format!("{SMALL} --budget 6s --output map --quiet --json"));
    // On a busy host no trial may be usable; then no race has an answer.
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {out}\n{err}");
    assert!(err.contains("only 1 of 2 races fit") && err.contains("--resume --budget"), "{err}");
    let short = repeats(&out);
    assert!(short[0] >= 3 && short[1] == 0, "{short:?}");
    let (code, out, err) = atlas(folder.path(), "--resume map --budget 12s --json");
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {out}\n{err}");
    assert!(err.contains("race 2 of 2: closed loop, 20 connections, think 20ms, 1B -> 100B"), "{err}");
    let long = repeats(&out);
    assert!(long[0] >= short[0] && long[1] >= 3, "{short:?} {long:?}");
    let page = std::fs::read_to_string(folder.path().join("map/atlas.html")).unwrap();
    assert!(page.contains("2 races on 1 host") && page.contains("20 connections"), "{page}");
    let (again, text, err) = atlas(folder.path(), "--merge map/001 map/002 --html both.html");
    assert!(again == code && text.starts_with("2 races on 1 host: ") && err.is_empty(), "{again:?} {text}\n{err}");
    assert!(folder.path().join("both.html").exists());
}

pub fn cases(cases: &mut Cases) {
    cases.once(case!(map_grows_with_its_budget_and_merges));
}
