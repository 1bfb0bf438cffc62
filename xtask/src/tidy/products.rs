//! No build product is a file of the tree: none that git tracks lies below a folder `target`, be it
//! that of the workspace or of a package that is built by itself.

use std::collections::BTreeMap;

use super::Finding;

/// One finding for each such folder. `tracked` has the files' paths from the root, which a zero byte
/// ends.
pub(super) fn check(tracked: &str) -> Vec<Finding> {
    let mut n_files: BTreeMap<&str, u64> = BTreeMap::new();
    for folder in tracked.split('\0').filter_map(folder_of) {
        *n_files.entry(folder).or_default() += 1;
    }
    let finding = |(folder, n)| {
        let message =
            format!("git tracks {n} of the files in this folder, which is for build products");
        Finding::in_file(folder, message)
    };
    n_files.into_iter().map(finding).collect()
}

/// The outermost folder `target` that the file lies in.
fn folder_of(path: &str) -> Option<&str> {
    let (folders, _) = path.rsplit_once('/')?;
    let mut end = 0;
    for name in folders.split('/') {
        end += name.len();
        if name == "target" {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn tracked_build_products_are_found_wherever_they_lie() {
        let tracked = "target/a.d\0benches/x/target/debug/x\0benches/x/target/debug/target/y\0";
        let found = check(tracked);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        let message = |folder: &str, n: u64| {
            format!(
                "{folder}: git tracks {n} of the files in this folder, which is for build products"
            )
        };
        assert_eq!(
            found,
            [message("benches/x/target", 2), message("target", 1)]
        );
    }

    #[test]
    fn only_folders_of_that_very_name_are_meant() {
        assert_eq!(check(""), []);
        assert_eq!(
            check("src/target.rs\0docs/target\0targets/a.rs\0on_target/b.rs\0"),
            []
        );
    }
}
