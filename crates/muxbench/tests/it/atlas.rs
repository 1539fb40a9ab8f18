//! Decision maps: races that do not fit, the rest with more time, pages of one and of several folders, and wrong input.

use std::path::Path;

use crate::cases::{Cases, case};
use crate::common::muxbench;
use serde_json::Value;

/// Flags of a map of two races, whose two repeats take about three seconds. A closed loop with think time needs no punctual client.
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
    let (code, out, err) = atlas(folder.path(), &format!("{SMALL} --budget 4s --output map --quiet --json"));
    // On a busy host no trial may be usable; then no race has an answer.
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {out}\n{err}");
    assert!(err.contains("only 1 of 2 races fit") && err.contains("--resume --budget"), "{err}");
    let short = repeats(&out);
    assert!(short[0] >= 2 && short[1] == 0, "{short:?}");
    let (code, out, err) = atlas(folder.path(), "--resume map --budget 8s --json");
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {out}\n{err}");
    assert!(err.contains("race 2 of 2: closed loop, 20 connections, think 20ms, 1B -> 100B"), "{err}");
    let long = repeats(&out);
    assert!(long[0] >= short[0] && long[1] >= 2, "{short:?} {long:?}");
    let page = std::fs::read_to_string(folder.path().join("map/atlas.html")).unwrap();
    assert!(page.contains("2 races on 1 host") && page.contains("20 connections"), "{page}");
    let (again, text, err) = atlas(folder.path(), "--merge map/001 map/002 --html both.html");
    assert!(again == code && text.starts_with("2 races on 1 host: ") && err.is_empty(), "{again:?} {text}\n{err}");
    assert!(folder.path().join("both.html").exists());
}

fn wrong_input_of_a_map_names_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, words) in [
        (&*format!("{SMALL} --budget 1s"), "try --budget "),
        ("--connections 10 --active 1 --rate 100 --response 1B --simulated-work none", "or try `muxbench advise`"),
        ("--placebo", "--placebo: a race"),
        ("--accept shared,reuseport --print-plan", "--accept: a race has one server of each architecture"),
        ("--busy-poll off,50us --print-plan", "--busy-poll: a race has one server of each architecture"),
        ("--connections 10,20 --arch epoll --print-plan", "a race needs two servers"),
        ("--merge .", "contains no races"),
        ("--resume .", "contains no races"),
        ("--budget 1", "such as"),
    ] {
        let (code, out, err) = atlas(folder.path(), flags);
        assert!(matches!(code, Some(1 | 2)) && err.contains(words) && out.is_empty(), "{flags}: {code:?} {out}\n{err}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path().join("results")).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "a map that cannot begin leaves nothing: {left:?}");
    let flags = ["compare", "--response", "1B,2B"];
    let output = muxbench().args(flags).current_dir(folder.path()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("--response has 2 values; give one") && err.contains("try `muxbench atlas`"), "{err}");
}

pub fn cases(cases: &mut Cases) {
    cases.once(case!(map_grows_with_its_budget_and_merges));
    cases.once(case!(wrong_input_of_a_map_names_a_remedy));
}
