use super::*;

/// Returns the cycles of a crate with these files: the files of each cycle and the uses among them as `a -> b: item`.
fn cycles(files: &[(&str, &str)]) -> Vec<String> {
    let text = |path: &Path| {
        let found = files.iter().find(|(name, _)| Path::new(name) == path);
        found.map(|(_, text)| (*text).to_owned())
    };
    let cycles = of_crate(Path::new("lib.rs"), &text).unwrap();
    cycles.iter().map(|cycle| cycle.to_string().trim().replace("\n  ", "; ")).collect()
}

#[test]
fn files_with_one_way_uses_form_no_cycle() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; fn f(_: B) { crate::c::g() }"),
        ("b.rs", "use std::fmt; pub struct B(crate::c::C); fn f() -> fmt::Result { Ok(()) }"),
        ("c.rs", "pub struct C; pub fn g() { c() } fn c() {}"),
    ];
    assert_eq!(cycles(&files), [""; 0]);
}

#[test]
fn two_files_that_use_each_other_form_a_cycle() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::{self, B as Other}; pub struct A(Other); fn f() { b::g() }"),
        ("b.rs", "pub struct B; pub fn g() { let _ = crate::a::A::new(); }"),
    ];
    assert_eq!(cycles(&files), ["2 files use each other:; a.rs -> b.rs: B, Other, g; b.rs -> a.rs: A"]);
}

#[test]
fn all_cycles_of_a_crate_are_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
        ("a.rs", "use crate::b::f as g; pub fn f() { g() }"),
        ("b.rs", "use crate::c::f as g; pub fn f() { g() }"),
        ("c.rs", "use crate::{a::f as g, d::f as h}; pub fn f() { g(); h() }"),
        ("d.rs", "use crate::e::f as g; pub fn f() { g() }"),
        ("e.rs", "use crate::d::f as g; pub fn f() { g() }"),
    ];
    let found = cycles(&files);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[1], "2 files use each other:; d.rs -> e.rs: f, g; e.rs -> d.rs: f, g");
    assert_eq!(found[0], "3 files use each other:; a.rs -> b.rs: f, g; b.rs -> c.rs: f, g; c.rs -> a.rs: f, g");
}

#[test]
fn reexport_leads_to_the_file_that_defines_the_item() {
    // Items are used through the root, a glob, and a new name.
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::*; pub use b::B as Renamed;"),
        ("a.rs", "pub struct A; fn f(_: crate::Renamed) {}"),
        ("b.rs", "use crate::A; pub struct B(A);"),
    ];
    assert_eq!(cycles(&files), ["2 files use each other:; a.rs -> b.rs: Renamed; b.rs -> a.rs: A"]);
    // Re-exports are no uses: the root does not use `a` or `b`, so the uses of `Own` form no cycle.
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B; pub struct Own;"),
        ("a.rs", "pub struct A(crate::Own);"),
        ("b.rs", "pub struct B(crate::A, crate::Own);"),
    ];
    assert_eq!(cycles(&files), [""; 0]);
}

#[test]
fn module_and_function_with_one_name_are_distinguished() {
    let root = "mod a; mod run; mod other; pub use run::run;";
    let run = ("run.rs", "pub use crate::other::f; pub fn run() {} fn g() { crate::a::A }");
    let other = ("other.rs", "pub fn f() {}");
    let by_module = [("lib.rs", root), ("a.rs", "use crate::run; pub struct A; fn g() { run::f() }"), run, other];
    assert_eq!(cycles(&by_module), [""; 0]);
    let by_function = [by_module[0], ("a.rs", "use crate::run; pub struct A; fn g() { run() }"), run, other];
    assert_eq!(cycles(&by_function), ["2 files use each other:; a.rs -> run.rs: run; run.rs -> a.rs: A"]);
}

#[test]
fn parent_and_child_that_use_each_other_form_a_cycle() {
    let child = ("parent/child.rs", "use super::Item; pub fn f(_: Item) {}");
    for parent in ["mod child; pub struct Item; fn f() { child::f(Item) }", "mod child; pub struct Item; use child::f;"]
    {
        let files = [("lib.rs", "mod parent;"), ("parent/mod.rs", parent), child];
        let expected =
            "2 files use each other:; parent/child.rs -> parent/mod.rs: Item; parent/mod.rs -> parent/child.rs: f";
        assert_eq!(cycles(&files), [expected], "{parent}");
    }
    let declares = ("parent/mod.rs", "pub mod child; pub use child::f; pub struct Item;");
    assert_eq!(cycles(&[("lib.rs", "mod parent;"), declares, child]), [""; 0]);
}

#[test]
fn uses_in_tests_are_ignored() {
    let b = ("b.rs", "use crate::a::A; pub struct B(A);");
    for test in [
        "#[cfg(test)] mod tests { use crate::b::B; fn f(_: B) {} }",
        "#[cfg(test)] mod tests;",
        "#[cfg(all(test, target_os = \"linux\"))] use crate::b::B;",
        "#[test] fn f() { crate::b::B; }",
        "impl A { #[cfg(test)] fn f(_: crate::b::B) {} }",
    ] {
        let a = format!("pub struct A; {test}");
        let files = [("lib.rs", "mod a; mod b;"), ("a.rs", &a), b, ("a/tests.rs", "use crate::b::B;")];
        assert_eq!(cycles(&files), [""; 0], "{test}");
    }
    for code in ["#[cfg(not(test))] use crate::b::B;", "#[cfg(any(test, unix))] use crate::b::B;"] {
        let a = format!("pub struct A; {code}");
        assert_eq!(cycles(&[("lib.rs", "mod a; mod b;"), ("a.rs", &a), b]).len(), 1, "{code}");
    }
}

#[test]
fn super_is_resolved_from_the_enclosing_module() {
    let files = [
        ("lib.rs", "mod a; mod c;"),
        ("a.rs", "mod b; pub struct A;"),
        ("a/b.rs", "fn f(_: super::super::c::C) {} mod inline { fn f() -> super::super::A { super::super::A } }"),
        ("c.rs", "pub struct C; fn f(_: super::a::A) {}"),
    ];
    assert_eq!(cycles(&files), [""; 0]);
    let upwards = ("a.rs", "mod b; pub struct A; fn f() { b::g() }");
    let b = ("a/b.rs", "pub fn g() {} mod inline { fn f() -> super::super::A { super::super::A } }");
    let files = [files[0], upwards, b, files[3]];
    assert_eq!(cycles(&files), ["2 files use each other:; a/b.rs -> a.rs: A; a.rs -> a/b.rs: g"]);
}

#[test]
fn glob_uses_its_module_and_the_names_taken_from_it() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::*; pub fn f(_: Moved) {}"),
        ("b.rs", "pub use crate::c::Moved; fn g() { crate::a::f(loop {}) }"),
        ("c.rs", "pub struct Moved; fn g() { crate::a::f(Moved) }"),
    ];
    let expected = "3 files use each other:; a.rs -> b.rs: *; a.rs -> c.rs: Moved; b.rs -> a.rs: f; c.rs -> a.rs: f";
    assert_eq!(cycles(&files), [expected]);
}

#[test]
fn macros_and_their_arguments_are_uses() {
    let a = "pub struct A; fn f() { println!(\"{}\", crate::b::g(1)); }";
    let by_path = "macro_rules! shown { () => { 1 } } pub(crate) use shown; pub fn g(_: u8) -> crate::a::A { loop {} }";
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", by_path)];
    assert_eq!(cycles(&files), ["2 files use each other:; a.rs -> b.rs: g; b.rs -> a.rs: A"]);
    let by_macro = ("a.rs", "pub struct A; fn f() -> u8 { crate::b::shown!() }");
    assert_eq!(
        cycles(&[files[0], by_macro, files[2]]),
        ["2 files use each other:; a.rs -> b.rs: shown; b.rs -> a.rs: A"]
    );
    // A macro is visible in the child modules of its module.
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "macro_rules! shown { () => { 1 } } mod inside; pub fn f() { inside::g() }"),
        ("a/inside.rs", "pub fn g() { shown!() }"),
    ];
    assert_eq!(cycles(&files), ["2 files use each other:; a/inside.rs -> a.rs: shown!; a.rs -> a/inside.rs: g"]);
    let in_attribute = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A { #[serde(deserialize_with = \"crate::b::read\")] x: u8 }"),
        ("b.rs", "pub fn read(_: crate::a::A) {}"),
    ];
    assert_eq!(cycles(&in_attribute), ["2 files use each other:; a.rs -> b.rs: read; b.rs -> a.rs: A"]);
}

#[test]
fn files_of_every_system_are_read() {
    let root = "#[cfg_attr(unix, path = \"unix.rs\")] mod system; #[cfg(windows)] #[path = \"windows.rs\"] mod system2; \
                pub struct Root; fn f() { system::g(); system2::g() }";
    let files = [
        ("lib.rs", root),
        ("unix.rs", "pub fn g() { g2() } fn g2() {} fn h(_: crate::Root) {}"),
        ("system.rs", "pub fn g() { g2() } fn g2() {}"),
        ("windows.rs", "pub fn g() {} fn h(_: crate::Root) {}"),
    ];
    let expected = "3 files use each other:; lib.rs -> unix.rs: g; lib.rs -> windows.rs: g; unix.rs -> lib.rs: Root; \
                    windows.rs -> lib.rs: Root";
    assert_eq!(cycles(&files), [expected]);
}

#[test]
fn missing_or_broken_files_are_errors() {
    let read =
        |root: &str| of_crate(Path::new("lib.rs"), &|path| (path == Path::new("lib.rs")).then(|| root.to_owned()));
    assert!(read("mod a;").unwrap_err().to_string().contains("cannot find the file of module `a`"));
    assert!(read("fn {").unwrap_err().to_string().contains("cannot parse lib.rs"));
}
