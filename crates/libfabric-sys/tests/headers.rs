//! The bindings beside the installed headers: every size, offset and constant as a C compiler has
//! it.
//!
//! The bindings say these numbers themselves, in assertions that the Rust compiler has checked:
//! they are read from the source here, and a program in C that prints the same is compiled and run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

const BINDINGS: &str = include_str!("../src/bindings.rs");
const HEADERS: &str = include_str!("../wrapper.h");

/// What the bindings say, by what C calls it.
fn said_by_bindings() -> BTreeMap<String, i128> {
    let text = BINDINGS.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut said = BTreeMap::new();
    for rest in text.split("[\"").skip(1) {
        let Some((what, rest)) = rest.split_once("\"]") else {
            continue;
        };
        let number = rest
            .split(" - ")
            .nth(1)
            .and_then(|text| text.split("usize").next());
        let number = number.and_then(|number| number.trim().parse().ok());
        let expression = if let Some(name) = what.strip_prefix("Size of ") {
            format!("sizeof({})", in_c(name))
        } else if let Some((name, field)) = what
            .strip_prefix("Offset of field: ")
            .and_then(|place| place.split_once("::"))
        {
            // Words of Rust's get a line behind them.
            format!("offsetof({}, {})", in_c(name), field.trim_end_matches('_'))
        } else {
            continue;
        };
        let is_named = !what.contains("__bindgen");
        if is_named {
            said.insert(expression, number.expect("an assertion about a number"));
        }
    }
    for rest in text.split("pub const ").skip(1) {
        let (name, rest) = rest.split_once(": ").expect("a constant has a type");
        let (_, rest) = rest.split_once(" = ").expect("a constant has a value");
        let (value, _) = rest.split_once(';').expect("a constant ends");
        if let Ok(value) = value.parse() {
            said.insert(name.to_owned(), value);
        }
    }
    said
}

/// The name of a type in C, where structures have a name space of their own.
fn in_c(name: &str) -> String {
    let is_union = BINDINGS.contains(&format!("pub union {name} "));
    format!("{} {name}", if is_union { "union" } else { "struct" })
}

#[test]
fn sizes_offsets_and_constants_are_those_of_the_installed_headers() {
    let said = said_by_bindings();
    let n_places = said.keys().filter(|key| key.contains('(')).count();
    assert!(n_places > 200, "{n_places} sizes and offsets");
    assert!(
        said.len() - n_places > 200,
        "{} constants",
        said.len() - n_places
    );
    for known in [
        "sizeof(struct fi_info)",
        "offsetof(struct fi_ops_rma, writemsg)",
        "FI_EAGAIN",
    ] {
        assert!(said.contains_key(known), "{known}");
    }
    let mut program =
        format!("#include <stddef.h>\n#include <stdio.h>\n{HEADERS}\nint main(void) {{\n");
    for expression in said.keys() {
        // Enumerators and masks are 32 bits wide, and some of them have the highest one.
        writeln!(
            program,
            "printf(\"%s\\t%lld\\n\", \"{expression}\", (long long)({expression}));"
        )
        .expect("a text takes any");
    }
    program.push_str("return 0; }\n");
    let folder = tempfile::tempdir().expect("a folder");
    let (source, binary) = (folder.path().join("print.c"), folder.path().join("print"));
    fs::write(&source, program).expect("a file");
    let compiler = option_env!("CC").unwrap_or("cc");
    let compiled = Command::new(compiler)
        .arg("-w")
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .output();
    let compiled = compiled.expect("a C compiler");
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(
        compiled.status.success(),
        "are libfabric's headers installed (libfabric-dev)?\n{errors}"
    );
    let printed = Command::new(&binary).output().expect("the program runs");
    let printed = String::from_utf8(printed.stdout).expect("text");
    let mut n_compared = 0;
    for line in printed.lines() {
        let (expression, value) = line.split_once('\t').expect("two columns");
        let value: i128 = value.parse().expect("a number");
        let own = said[expression];
        // Those of 64 bits come as negative numbers where the highest bit is set.
        let is_same =
            own == value || own == value.rem_euclid(1 << 64) || own == value.rem_euclid(1 << 32);
        assert!(is_same, "{expression} is {value} in C and {own} here");
        n_compared += 1;
    }
    assert_eq!(n_compared, said.len());
}
