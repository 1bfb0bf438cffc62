//! Numbers and texts in the form in which they are shown.

/// `part` of `whole`, in percent.
#[must_use]
pub fn percent(part: u64, whole: u64) -> u64 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX).min(100)
}

/// The sum of figures that a damaged file may have: the largest number if it is beyond.
pub(crate) fn sum(figures: impl Iterator<Item = u64>) -> u64 {
    figures.fold(0, u64::saturating_add)
}

/// Adds to such a sum.
pub(crate) fn add(sum: &mut u64, figure: u64) {
    *sum = sum.saturating_add(figure);
}

/// A duration in readable units.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "it is shown with few digits")]
pub fn time(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    match nanos {
        0..1_000 => format!("{nanos} ns"),
        1_000..1_000_000 => format!("{:.1} \u{b5}s", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

/// A size in readable units.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "it is shown with few digits")]
pub fn size(bytes: u64) -> String {
    let bytes_as = |shift: u32| bytes as f64 / (1_u64 << shift) as f64;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{:.1} KiB", bytes_as(10)),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes_as(20)),
        _ => format!("{:.1} GiB", bytes_as(30)),
    }
}

/// Escapes a text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(letter),
        }
    }
    out
}

/// `rank 3`, or `ranks 0, 1 and 5`, or `ranks 0 to 7`.
#[must_use]
pub fn ranks(numbers: &[u32]) -> String {
    let text = |numbers: &[u32]| {
        let texts: Vec<String> = numbers.iter().map(ToString::to_string).collect();
        texts.join(", ")
    };
    match numbers {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [first, .., last] if numbers.len() > 2 && (last - first) as usize + 1 == numbers.len() => {
            format!("ranks {first} to {last}")
        }
        [most @ .., last] if numbers.len() <= 8 => format!("ranks {} and {last}", text(most)),
        _ => format!(
            "ranks {} and {} more",
            text(&numbers[..6]),
            numbers.len() - 6
        ),
    }
}
