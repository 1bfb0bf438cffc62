//! The names of tests that steps and mutants ask for, looked up in the sources: cargo runs no test
//! for a name that is no longer there, and passes.

use std::fs;
use std::path::Path;

use crate::process::root;

/// The functions of a package's library, or of the test program of that name, with their modules.
/// Where a file has an inline module of tests, each function is listed within it, too.
pub(crate) fn functions(package: &str, program: Option<&str>) -> Vec<String> {
    let name = package.trim_start_matches("pgas-");
    let folders = [format!("crates/{name}"), format!("crates/backend-{name}")];
    let mut folders = folders.iter().map(|folder| root().join(folder));
    let folder = folders.find(|folder| folder.exists()).expect(package);
    let mut names = Vec::new();
    match program {
        None => collect(&folder.join("src"), "", &mut names),
        Some(program) => {
            let folder = folder.join("tests");
            collect(&folder.join(program), "", &mut names);
            names.extend(functions_of(&folder.join(program).with_extension("rs"), ""));
        }
    }
    names
}

fn collect(folder: &Path, module: &str, names: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let inner = match stem {
            "lib" | "main" | "mod" => module.to_owned(),
            _ => format!("{module}{stem}::"),
        };
        if path.is_dir() {
            collect(&path, &inner, names);
        } else {
            names.extend(functions_of(&path, &inner));
        }
    }
}

fn functions_of(file: &Path, module: &str) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let has_tests = text.contains("mod tests {");
    let modules = ["", "tests::"].into_iter().take(1 + usize::from(has_tests));
    let functions = |within: &str| -> Vec<String> {
        let names = text.lines().filter_map(function);
        names
            .map(|name| format!("{module}{within}{name}"))
            .collect()
    };
    modules.flat_map(functions).collect()
}

/// The name of the function that begins on a line.
fn function(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    let name = rest.split(['(', '<']).next()?;
    (name.len() < rest.len()).then_some(name)
}

#[test]
fn functions_have_the_names_of_test_programs() {
    let names = functions("pgas-am", None);
    let program = functions("pgas-am", Some("integration"));
    let is_there = |names: &[String], name: &str| names.iter().any(|known| known == name);
    assert!(is_there(&names, "pieces::tests::payload"));
    assert!(is_there(
        &program,
        "futures::long::a_long_chain_is_dropped_with_its_world"
    ));
    assert!(!is_there(
        &program,
        "a_long_chain_is_dropped_with_its_world"
    ));
}
