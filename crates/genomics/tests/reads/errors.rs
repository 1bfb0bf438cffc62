//! Each error in an input gives one line with the file, the line and the cause, on one rank and on
//! several.

use crate::common::{gzip, write};
use pgas_genomics::{Input, KmerLength, Segment, Share};

/// The one-line messages of all ranks with an error, without the directory of the file.
fn errors(bytes: &[u8], n_ranks: usize) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "reads", bytes);
    let tidy = |error: pgas_genomics::Error| {
        let message = error.to_string();
        assert!(!message.contains('\n'), "{message}");
        message.replace(&*dir.path().join("").to_string_lossy(), "")
    };
    let input = match Input::open([path]) {
        Ok(input) => input,
        Err(error) => return vec![tidy(error); n_ranks],
    };
    let k = KmerLength::new(5).unwrap();
    (0..n_ranks)
        .filter_map(|rank| {
            input
                .for_each_segment(Share::new(rank, n_ranks), k, |_| {})
                .err()
        })
        .map(tidy)
        .collect()
}

/// The whole file and any split of it give this message and no other. A gzip file gives it on all
/// ranks.
fn assert_error(text: &str, message: &str) {
    for n_ranks in 1..=9 {
        let mut plain = errors(text.as_bytes(), n_ranks);
        plain.dedup();
        assert_eq!(plain, [message], "{n_ranks} ranks");
    }
    let gzipped = errors(&gzip(text.as_bytes(), 50), 3);
    assert!(
        !gzipped.is_empty() && gzipped.iter().all(|error| error == message),
        "{gzipped:?}"
    );
}

/// `n` good records of four lines.
fn good(n: usize) -> String {
    (0..n)
        .map(|i| format!("@good{i} @\nACGTACGTNN\n+\n@+@+IIII+@\n"))
        .collect()
}

#[test]
fn a_record_cut_short_is_named_with_its_line() {
    let short = "reads, line";
    for (cut, message) in [
        (
            "@last x\nACGT\n+\nII",
            "24: the file ends in the middle of record 'last'",
        ),
        (
            "@last\nACGT\n+\n",
            "23: the file ends in the middle of record 'last'",
        ),
        (
            "@last\nACGT\n+",
            "23: the file ends in the middle of record 'last'",
        ),
        (
            "@last\nACGT\n",
            "22: the file ends in the middle of record 'last'",
        ),
        (
            "@last\nAC",
            "22: the file ends in the middle of record 'last'",
        ),
        (
            "@last\n",
            "21: the file ends in the middle of record 'last'",
        ),
        ("@last", "21: the file ends in the middle of record 'last'"),
    ] {
        assert_error(&(good(5) + cut), &format!("{short} {message}"));
        assert_error(
            &(good(5) + cut).replace('\n', "\r\n"),
            &format!("{short} {message}"),
        );
    }
}

#[test]
fn a_malformed_record_is_named_with_its_line() {
    for (bad, message) in [
        (
            "@bad\nACGT\n+\nIII\n",
            "reads, line 12: 3 quality values for 4 bases (record 'bad')",
        ),
        (
            "@bad\nACGT\n+\nIIIII\n",
            "reads, line 12: 5 quality values for 4 bases (record 'bad')",
        ),
        (
            "@bad\nACGT\nACGT\n+\nIIII\nIIII\n",
            "reads, line 11: expected '+' after one line of sequence, found 'A' (record 'bad')",
        ),
        (
            "@bad\tx\nACGT\n\nIIII\n",
            "reads, line 11: expected '+' after one line of sequence, found a blank line (record 'bad')",
        ),
        (
            "bad\nACGT\n+\nIIII\n",
            "reads, line 9: expected '@' at the start of a FASTQ record, found 'b'",
        ),
        (
            "\n@bad\nACGT\n+\nIIII\n",
            "reads, line 9: expected '@' at the start of a FASTQ record, found a blank line",
        ),
        (
            "\0\0\0\0",
            "reads, line 9: expected '@' at the start of a FASTQ record, found byte 0x00",
        ),
        (
            "@bad\nAC T\n+\nIIII\n",
            "reads, line 10: byte 0x20 in a sequence",
        ),
    ] {
        assert_error(&(good(2) + bad + &good(9)), message);
    }
    let blank_first =
        "reads, line 1: expected '@' at the start of a FASTQ record, found a blank line";
    assert_error(&("\n".to_owned() + &good(2)), blank_first);
}

#[test]
fn a_bad_byte_in_fasta_is_named_with_its_line() {
    let good = ">good x\nACGTACGTAC\nACGTAC\n\n".repeat(3);
    for (bad, message) in [
        (
            ">bad\nACGT\nAC\0GT\n",
            "reads, line 15: byte 0x00 in a sequence",
        ),
        (
            ">bad\nACGT\nAC GT\n",
            "reads, line 15: byte 0x20 in a sequence",
        ),
        (
            ">bad\nACGT\nAC\rGT\n",
            "reads, line 15: byte 0x0d in a sequence",
        ),
        (
            ">bad\nACGTAC\r\r\nGT\n",
            "reads, line 14: byte 0x0d in a sequence",
        ),
        (">bad\nÄ\n", "reads, line 14: byte 0xc3 in a sequence"),
        // Lines of FASTQ behind FASTA, and a comment.
        (
            "@ACGTACGT\nGGGG\n",
            "reads, line 13: a line of a FASTA sequence begins with '@'",
        ),
        (
            "+\nCCCC\n",
            "reads, line 13: a line of a FASTA sequence begins with '+'",
        ),
        (
            ">bad\r\nACGT\r\n;ACGT\r\n",
            "reads, line 15: a line of a FASTA sequence begins with ';'",
        ),
    ] {
        assert_error(&(good.clone() + bad + &good), message);
    }
}

#[test]
fn a_file_that_holds_no_sequences_is_named() {
    assert_error("", "reads: the file is empty");
    assert_error("\n\r\n", "reads: the file is empty");
    for (text, first) in [
        ("hello", "'h'"),
        ("\n\nACGT\n", "'A'"),
        ("\u{7f}ELF", "byte 0x7f"),
    ] {
        let message =
            format!("reads: neither FASTA nor FASTQ: it begins with {first}, not with '>' or '@'");
        assert_error(text, &message);
    }
}

#[test]
fn a_damaged_gzip_is_an_error_on_every_rank() {
    let mut state = 7_u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b"ACGT"[(state >> 30) as usize])
    };
    let sequence: String = (0..100_000).map(|_| letter()).collect();
    for text in [
        format!(">x\n{sequence}\n"),
        format!("@x\n{sequence}\n+\n{sequence}\n"),
    ] {
        let whole = gzip(text.as_bytes(), 60_000);
        for n_left in [whole.len() - 1, whole.len() - 9, 300, 12, 2] {
            assert_eq!(
                errors(&whole[..n_left], 4),
                ["reads: the gzip data is cut short"; 4]
            );
        }
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x55;
        let errors = errors(&flipped, 4);
        assert_eq!(errors.len(), 4, "{errors:?}");
        let damaged = "reads: the gzip data is damaged: corrupt ";
        assert!(
            errors.iter().all(|error| error.starts_with(damaged)),
            "{errors:?}"
        );
    }
}

#[test]
fn files_that_cannot_be_opened_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.fq");
    let error = Input::open([&missing]).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "{}: No such file or directory (os error 2)",
            missing.display()
        )
    );

    let error = Input::open([dir.path()]).unwrap_err().to_string();
    let shown = dir.path().display();
    assert_eq!(
        error,
        format!("{shown}: not a regular file, so ranks cannot share it by bytes")
    );

    let none: [&str; 0] = [];
    assert_eq!(
        Input::open(none).unwrap_err().to_string(),
        "no input files were given"
    );
}

#[test]
fn a_file_that_shrank_after_opening_is_an_error() {
    for text in [">x\nACGT\n".repeat(9), good(9)] {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), "reads", &text);
        let input = Input::open([&path]).unwrap();
        std::fs::write(&path, &text[..text.len() / 9]).unwrap();
        let k = KmerLength::new(3).unwrap();
        let results = (0..3).map(|rank| input.for_each_segment(Share::new(rank, 3), k, |_| {}));
        let errors: Vec<_> = results.filter_map(Result::err).collect();
        assert!(!errors.is_empty());
        for error in errors {
            let message = format!("{}: the file changed while it was read", path.display());
            assert_eq!(error.to_string(), message);
        }
    }
}

#[test]
fn an_error_of_the_callback_ends_the_reading() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "reads", good(5));
    let input = Input::open([&path]).unwrap();
    let mut n_calls = 0;
    let full = || Box::<dyn std::error::Error>::from("table full");
    let on_segment = |_: Segment<'_>| {
        n_calls += 1;
        if n_calls == 3 { Err(full()) } else { Ok(()) }
    };
    let k = KmerLength::new(3).unwrap();
    let error = input
        .try_for_each_segment(Share::whole(), k, on_segment, |_| {})
        .unwrap_err();
    assert_eq!(error.to_string(), "table full");
    assert_eq!(n_calls, 3);
}

/// A small compressed file can contain an endless record, which must not be held in memory as a
/// whole.
#[test]
fn a_record_that_is_too_long_is_named_with_the_limit() {
    let megabyte = gzip(&vec![b'A'; 1 << 20], 1 << 20);
    let mut gzipped = gzip(good(2).as_bytes(), 50);
    gzipped.extend(gzip(b"@long x\n", 50));
    for _ in 0..40 {
        gzipped.extend_from_slice(&megabyte);
    }
    assert!(gzipped.len() < 1 << 20, "{}", gzipped.len());
    let expected = "reads, line 9: record 'long' has more than 16777216 bytes, which is the limit";
    assert_eq!(errors(&gzipped, 1), [expected]);
}

#[test]
fn the_name_of_a_file_begins_no_line_and_steers_no_terminal() {
    let error = Input::open(["no such\npgas: rank 0 has failed\u{1b}[2J"]).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(text.contains(r"such\npgas"), "{text:?}");
}

#[test]
fn line_ends_that_are_carriage_returns_alone_are_refused() {
    let why = "byte 0x0d in the name of a sequence (lines end with \\n or \\r\\n)";
    assert_error(
        ">a\rACGTACGT\r>b\rTTGCATGC\r",
        &format!("reads, line 1: {why}"),
    );
    assert_error(
        ">a\nACGTACGT\n>b\rTTGCA\n",
        &format!("reads, line 3: {why}"),
    );
    // One at the end of the file ends its line.
    assert!(errors(b">a\nACGT\n>b\r", 3).is_empty());
}
