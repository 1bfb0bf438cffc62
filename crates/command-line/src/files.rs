//! Two names of one file.

use std::path::{Path, PathBuf};

/// The links that Linux follows.
const MOST_LINKS: usize = 40;

/// Where a file is, or will be, without links. If even its directory is not there, its name.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use pgas_command_line::place;
///
/// let directory = std::env::current_dir()?;
/// assert_eq!(place(Path::new("./new")), directory.canonicalize()?.join("new"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn place(path: &Path) -> PathBuf {
    let directory = |file: &Path| match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut file = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(there) = file.canonicalize() {
            return there;
        }
        let Ok(link) = file.read_link() else {
            break;
        };
        file = directory(&file).join(link);
    }
    let there = directory(&file).canonicalize().ok().zip(file.file_name());
    there.map_or(file.clone(), |(directory, name)| directory.join(name))
}

/// The first of `outputs` that is one of `inputs` or another output, by whatever name, and that
/// other one. It would be lost. Devices and pipes have room for several.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use pgas_command_line::overwritten;
///
/// let [source, guest, same] = ["a.s", "a.elf", "./a.s"].map(Path::new);
/// assert_eq!(overwritten(&[guest], &[source]), None);
/// assert_eq!(overwritten(&[guest, same], &[source]), Some((same, source)));
/// ```
#[must_use]
pub fn overwritten<'a>(outputs: &[&'a Path], inputs: &[&'a Path]) -> Option<(&'a Path, &'a Path)> {
    let mut others = inputs.to_vec();
    for output in outputs {
        let there = place(output);
        let holds_one = !there.exists() || there.is_file();
        let is_same = |other: &&&Path| place(other) == there || is_one_file(other, &there);
        let other = others.iter().find(is_same);
        if let Some(other) = other.filter(|_| holds_one) {
            return Some((output, other));
        }
        others.push(output);
    }
    None
}

/// Whether two paths lead to one file, as hard links do.
#[cfg(unix)]
fn is_one_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let number = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
    number(one).is_ok_and(|one| number(other).is_ok_and(|other| one == other))
}

#[cfg(not(unix))]
fn is_one_file(_: &Path, _: &Path) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn one_file_by_two_names_is_one_file() {
        let directory = std::env::temp_dir().join(format!("names-{}", std::process::id()));
        let path = |name: &str| directory.join(name);
        fs::create_dir_all(path("below")).unwrap();
        fs::write(path("there"), "").unwrap();
        symlink("there", path("link")).unwrap();
        symlink("below/new", path("to-new")).unwrap();
        symlink("circle", path("circle")).unwrap();
        fs::hard_link(path("there"), path("below/hard")).unwrap();
        let is_lost = |output: &str, other: &str| {
            let (output, other) = (path(output), path(other));
            let lost = overwritten(&[&output], &[&other]);
            assert_eq!(overwritten(&[&other, &output], &[]), lost);
            lost.is_some()
        };
        let same = [
            ("there", "link"),
            ("link", "below/../there"),
            ("new", "below/../new"),
            ("to-new", "below/new"),
            ("circle", "circle"),
            ("no/such", "no/such"),
            ("below/hard", "there"),
            ("below/hard", "link"),
        ];
        let found = same.map(|(output, other)| is_lost(output, other));
        let different = [("new", "below/new"), ("there", "to-new")];
        let other = different.map(|(output, other)| is_lost(output, other));
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!((found, other), ([true; 8], [false; 2]));
        let device = Path::new("/dev/null");
        assert_eq!(overwritten(&[device, device], &[]), None);
    }
}
