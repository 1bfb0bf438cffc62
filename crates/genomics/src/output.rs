//! Output files that appear as a whole or not at all, and the text of k-mers with their counts.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::{Error, Kmer, KmerLength, Result, interrupt};

/// Bytes of lines in one write.
const WRITE_BYTES: usize = 1 << 20;

/// Permissions of a new file, before the process's mask.
const NEW_FILE: u32 = 0o666;
const OWNER_WRITES: u32 = 0o200;

/// An unfinished file beside its target: `dump.txt.1234.partial` for `dump.txt`.
///
/// One rank [creates](Self::create) it, and others [join](Self::join). Each writes its part of the
/// bytes. When all have succeeded the first one [publishes](Self::publish) it by a rename. So a
/// reader of the target sees its old content, or all of the new text. The permissions of an old
/// file stay. The draft is removed when its
/// creator drops it unpublished, or is ended by SIGHUP, SIGINT or SIGTERM. A draft that a killed
/// process left behind is recognized by its name.
///
/// # Examples
/// ```
/// use pgas_genomics::output::Draft;
///
/// let target = std::env::temp_dir().join(format!("pgas-genomics-doc-{}.txt", std::process::id()));
/// let draft = Draft::create(&target, 1)?;
/// let other_rank = Draft::join(&target, 1)?;
/// other_rank.write_at(6, b"world\n")?;
/// draft.write_at(0, b"hello ")?;
/// assert!(!target.exists());
/// draft.publish()?;
/// assert_eq!(std::fs::read_to_string(&target)?, "hello world\n");
/// # std::fs::remove_file(&target)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Draft {
    target: PathBuf,
    path: PathBuf,
    file: File,
    /// Whether dropping this removes the file.
    is_creator: bool,
}

impl Draft {
    /// Creates the draft of `target`. Drafts with different `tag`s are different files.
    ///
    /// # Errors
    /// If the directory is not writable, `target` exists and is not a regular file, or is a name
    /// that only a directory can have, such as `counts/`.
    pub fn create(target: &Path, tag: u64) -> Result<Self> {
        let target = real(target)?;
        let path = draft_path(&target, tag);
        interrupt::remove(&path);
        // Who may not read the old file does not read the draft; other ranks must open it, too.
        let mode = mode_of(&target).map_or(NEW_FILE, |mode| mode | OWNER_WRITES);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let create = || options.open(&path);
        let file = match create() {
            // A killed process left it, or it is a link. Only a newly created file is certainly not
            // a link.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&path).and_then(|()| create())
            }
            created => created,
        };
        let file = io_at(&target, file.inspect_err(|_| interrupt::keep(&path)))?;
        Ok(Self {
            target,
            path,
            file,
            is_creator: true,
        })
    }

    /// Opens the draft that another rank has created for the same `target` and `tag`.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn join(target: &Path, tag: u64) -> Result<Self> {
        let target = real(target)?;
        let path = draft_path(&target, tag);
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(&path);
        let file = io_at(&target, opened)?;
        Ok(Self {
            target,
            path,
            file,
            is_creator: false,
        })
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// Errors of the system, such as a full disk.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        io_at(&self.target, self.file.write_all_at(bytes, offset))
    }

    /// Has `write` write the text as a whole, from its beginning.
    ///
    /// # Errors
    /// That of `write`, with the name of the file.
    ///
    /// # Examples
    /// ```
    /// use std::io::Write;
    ///
    /// use pgas_genomics::output::Draft;
    ///
    /// let name = format!("pgas-genomics-doc-whole-{}.txt", std::process::id());
    /// let target = std::env::temp_dir().join(name);
    /// let draft = Draft::create(&target, 1)?;
    /// draft.write_whole(|out| writeln!(out, "hello"))?;
    /// draft.publish()?;
    /// assert_eq!(std::fs::read_to_string(&target)?, "hello\n");
    /// # std::fs::remove_file(&target)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_whole(
        &self,
        write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<()> {
        let mut out = BufWriter::new(&self.file);
        let written = write(&mut out).and_then(|()| out.flush());
        io_at(&self.target, written)
    }

    /// The bytes of all lines that [`write_lines`](Self::write_lines) writes for these k-mers and
    /// counts.
    #[must_use]
    pub fn lines_bytes(k: KmerLength, counts: impl IntoIterator<Item = (Kmer, u64)>) -> u64 {
        let counts = counts.into_iter();
        counts.map(|(_, count)| line_bytes(k, count)).sum()
    }

    /// Writes a line for each k-mer and its count, the first at `offset`, in the format of
    /// `jellyfish dump -c`.
    ///
    /// # Errors
    /// As [`write_at`](Self::write_at).
    pub fn write_lines(
        &self,
        offset: u64,
        k: KmerLength,
        counts: impl IntoIterator<Item = (Kmer, u64)>,
    ) -> Result<()> {
        let mut text = Vec::with_capacity(WRITE_BYTES + 64);
        let mut offset = offset;
        for (kmer, count) in counts {
            push_line(&mut text, kmer, k, count);
            if text.len() >= WRITE_BYTES {
                self.write_at(offset, &text)?;
                offset += text.len() as u64;
                text.clear();
            }
        }
        self.write_at(offset, &text)
    }

    /// Renames the file to its target. The creator calls this after all ranks have written.
    ///
    /// # Errors
    /// If the system refuses; the draft is removed then.
    pub fn publish(mut self) -> Result<()> {
        if let Some(mode) = mode_of(&self.target)
            && mode_of(&self.path) != Some(mode)
        {
            let kept = self.file.set_permissions(Permissions::from_mode(mode));
            io_at(&self.target, kept)?;
        }
        io_at(&self.target, fs::rename(&self.path, &self.target))?;
        self.is_creator = false;
        interrupt::keep(&self.path);
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_creator {
            // A failed removal cannot be reported.
            fs::remove_file(&self.path).ok();
            interrupt::keep(&self.path);
        }
    }
}

/// An error if an output is one of the inputs, or another output, by whatever name. A rename would
/// replace it.
///
/// # Errors
///
/// [`Error::SameFile`].
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use pgas_genomics::output::check_names;
///
/// let reads = ["reads.fq".into()];
/// assert!(check_names(&[Some(Path::new("counts.txt")), None], &reads).is_ok());
/// assert!(check_names(&[Some(Path::new("./reads.fq"))], &reads).is_err());
/// ```
pub fn check_names(outputs: &[Option<&Path>], inputs: &[PathBuf]) -> Result<()> {
    let outputs: Vec<&Path> = outputs.iter().copied().flatten().collect();
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    match pgas_command_line::overwritten(&outputs, &inputs) {
        None => Ok(()),
        Some((output, other)) => Err(Error::SameFile {
            names: Box::new([output.into(), other.into()]),
        }),
    }
}

/// The file of `target` after following links, which need not be there yet: a rename must not
/// replace a link or a device.
fn real(target: &Path) -> Result<PathBuf> {
    /// The links that Linux follows.
    const MOST: usize = 40;
    let mut file = target.to_path_buf();
    for _ in 0..=MOST {
        match fs::metadata(&file) {
            Ok(found) if !found.is_file() => {
                return Err(Error::NotAFile {
                    file: target.into(),
                });
            }
            Ok(_) => break,
            Err(_) => match fs::read_link(&file) {
                Ok(link) => file = file.parent().unwrap_or(Path::new("")).join(link),
                Err(_) if ends_with_a_name(&file) => return Ok(file),
                Err(_) => {
                    return Err(Error::NotAFile {
                        file: target.into(),
                    });
                }
            },
        }
    }
    io_at(target, fs::canonicalize(file))
}

/// The permissions of a file that is there.
fn mode_of(file: &Path) -> Option<u32> {
    let found = fs::metadata(file).ok()?;
    Some(found.permissions().mode() & 0o777)
}

/// Whether the path can be that of a file: it ends with a name, and not with `/`, `.` or `..`.
fn ends_with_a_name(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    path.file_name()
        .is_some_and(|name| text.ends_with(name.as_encoded_bytes()))
}

fn draft_path(target: &Path, tag: u64) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{tag}.partial"));
    target.with_file_name(name)
}

fn io_at<T>(file: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::Io {
        file: file.into(),
        source,
    })
}

/// The letters of four bases.
const QUADS: [[u8; 4]; 256] = {
    let mut quads = [[0; 4]; 256];
    let mut index = 0;
    while index < 256 {
        let mut place = 0;
        while place < 4 {
            quads[index][place] = b"ACGT"[index >> (6 - 2 * place) & 3];
            place += 1;
        }
        index += 1;
    }
    quads
};

/// The bytes of the line that [`push_line`] appends.
fn line_bytes(k: KmerLength, count: u64) -> u64 {
    k.get() as u64 + u64::from(count.checked_ilog10().unwrap_or(0)) + 3
}

/// Appends a line: the k-mer, a blank, its count.
fn push_line(text: &mut Vec<u8>, kmer: Kmer, k: KmerLength, count: u64) {
    let mut letters = [0; 32];
    let (quads, _) = letters.as_chunks_mut::<4>();
    for (quad, byte) in quads.iter_mut().zip(kmer.word().to_be_bytes()) {
        *quad = QUADS[usize::from(byte)];
    }
    text.extend_from_slice(&letters[32 - k.get()..]);
    // Twenty digits of the largest count, between a blank and a line end.
    let mut tail = [b' '; 22];
    tail[21] = b'\n';
    let mut at = 21;
    let mut rest = count;
    loop {
        at -= 1;
        tail[at] = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend_from_slice(&tail[at - 1..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_by_two_names_is_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("below")).unwrap();
        fs::write(path("there"), "").unwrap();
        std::os::unix::fs::symlink(path("there"), path("link")).unwrap();
        fs::hard_link(path("there"), path("hard")).unwrap();
        let is_same = |a: &str, b: &str| {
            let (a, b) = (path(a), path(b));
            let among_outputs = check_names(&[Some(&b), None, Some(&a)], &[]).is_err();
            assert_eq!(check_names(&[Some(&a)], &[b]).is_err(), among_outputs);
            among_outputs
        };
        assert!(is_same("new", "below/../new"));
        assert!(is_same("link", "there"));
        assert!(is_same("hard", "link"));
        assert!(is_same("no/such", "no/such"));
        assert!(!is_same("new", "below/new"));
        assert!(check_names(&[Some(Path::new("new"))], &["./new".into()]).is_err());
        // Inputs are no trouble for each other.
        let inputs = [path("there"), path("there")];
        assert!(check_names(&[Some(&path("new"))], &inputs).is_ok());
    }

    #[test]
    fn a_link_in_the_place_of_a_draft_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("dump.txt");
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let planted = draft_path(&target, 7);
        std::os::unix::fs::symlink(&victim, &planted).unwrap();
        let draft = Draft::create(&target, 7).unwrap();
        draft.write_at(0, b"new text").unwrap();
        fs::remove_file(&planted).unwrap();
        std::os::unix::fs::symlink(&victim, &planted).unwrap();
        Draft::join(&target, 7).unwrap_err();
        drop(draft);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_draft_that_was_left_behind_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("dump.txt");
        fs::write(draft_path(&target, 7), "what a killed process left").unwrap();
        let draft = Draft::create(&target, 7).unwrap();
        draft.write_at(0, b"new").unwrap();
        draft.publish().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_dropped_draft_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("dump");
        fs::write(&target, "old").unwrap();
        let draft = Draft::create(&target, 7).unwrap();
        let joined = Draft::join(&target, 7).unwrap();
        joined.write_at(0, b"new").unwrap();
        drop(joined);
        assert_eq!(names(dir.path()), ["dump", "dump.7.partial"]);
        drop(draft);
        assert_eq!(names(dir.path()), ["dump"]);
        assert_eq!(fs::read(&target).unwrap(), b"old");
    }

    #[test]
    fn a_published_draft_replaces_the_file_that_a_link_points_to() {
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("dump"), dir.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let draft = Draft::create(&link, 1).unwrap();
        draft.write_at(0, b"new").unwrap();
        draft.publish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(dir.path()), ["dump", "link"]);
    }

    #[test]
    fn a_file_that_is_replaced_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("dump");
        for mode in [0o600, 0o440, 0o666] {
            fs::remove_file(&target).ok();
            fs::write(&target, "old").unwrap();
            fs::set_permissions(&target, Permissions::from_mode(mode)).unwrap();
            let draft = Draft::create(&target, 1).unwrap();
            let others = mode_of(&draft.path).unwrap() & 0o077;
            assert_eq!(others & !mode, 0, "the draft is no more open");
            Draft::join(&target, 1)
                .unwrap()
                .write_at(0, b"new")
                .unwrap();
            draft.publish().unwrap();
            assert_eq!(mode_of(&target), Some(mode));
            assert_eq!(fs::read(&target).unwrap(), b"new");
        }
    }

    #[test]
    fn a_link_to_a_file_that_is_not_there_yet_is_where_the_draft_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("there")).unwrap();
        let links = [
            ("there/out", "link"),
            ("link", "second"),
            ("first", "last"),
            ("last", "first"),
        ];
        for (to, name) in links {
            std::os::unix::fs::symlink(to, path(name)).unwrap();
        }
        let outputs = [path("link"), path("second")];
        let outputs = outputs.each_ref().map(|path| Some(path.as_path()));
        assert!(check_names(&outputs, &[]).is_err(), "they are one file");
        let draft = Draft::create(&path("second"), 1).unwrap();
        let joined = Draft::join(&path("second"), 1).unwrap();
        joined.write_at(0, b"new").unwrap();
        draft.publish().unwrap();
        assert_eq!(fs::read(path("there/out")).unwrap(), b"new");
        assert_eq!(fs::read(path("link")).unwrap(), b"new");
        assert!(path("second").is_symlink() && path("link").is_symlink());
        assert!(
            Draft::create(&path("first"), 1).is_err(),
            "it leads nowhere"
        );
        assert!(path("first").is_symlink());
    }

    #[test]
    fn lines_from_several_ranks_meet_without_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("dump");
        let k = KmerLength::new(21).unwrap();
        let counts: Vec<_> = (0..200_000_u64)
            .map(|i| (Kmer::from_word(i << 20), i * i))
            .collect();
        let draft = Draft::create(&target, 1).unwrap();
        let (low, high) = counts.split_at(70_001);
        let offset = Draft::lines_bytes(k, low.iter().copied());
        draft.write_lines(offset, k, high.iter().copied()).unwrap();
        draft.write_lines(0, k, low.iter().copied()).unwrap();
        draft.publish().unwrap();
        let line = |(kmer, count): &(Kmer, u64)| format!("{} {count}\n", kmer.to_text(k));
        let expected: String = counts.iter().map(line).collect();
        assert!(fs::read_to_string(&target).unwrap() == expected);
    }

    #[test]
    fn what_cannot_be_replaced_is_refused_by_name() {
        for (target, message) in [
            (
                "/dev/null",
                "/dev/null: not a regular file, so ranks cannot share it by bytes",
            ),
            (
                "/no/such/dir/dump",
                "/no/such/dir/dump: No such file or directory (os error 2)",
            ),
            (
                "no such dump/",
                "no such dump/: not a regular file, so ranks cannot share it by bytes",
            ),
            (
                "no such dump/.",
                "no such dump/.: not a regular file, so ranks cannot share it by bytes",
            ),
            (
                "",
                ": not a regular file, so ranks cannot share it by bytes",
            ),
        ] {
            let error = Draft::create(Path::new(target), 1).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn lines_have_every_length_and_the_largest_count() {
        for length in 1..=32 {
            let k = KmerLength::new(length).unwrap();
            let word = 0x1b2c_93d4_e5a6_7788 >> (64 - 2 * length);
            for count in [0, 1, 9, 10, 999, 1000, u64::MAX] {
                let kmer = Kmer::from_word(word);
                let mut text = b"before\n".to_vec();
                push_line(&mut text, kmer, k, count);
                let expected = format!("before\n{} {count}\n", kmer.to_text(k));
                assert_eq!(String::from_utf8(text).unwrap(), expected);
                assert_eq!(line_bytes(k, count), expected.len() as u64 - 7);
            }
        }
    }
}
