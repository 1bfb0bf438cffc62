//! The documentation of each operation states the prices of [`prices`].

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use pgas_containers::prices;
use pgas_core::stats::Operation;

/// The type, the method and the phase in a name such as `HashMap::find (find phase)`.
fn parts(operation: &Operation) -> (&str, &str) {
    let (ty, method) = operation.name().split_once("::").unwrap();
    (ty, method.split(' ').next().unwrap())
}

/// The source files of a container.
fn files(ty: &str) -> &'static [&'static str] {
    match ty {
        "HashMap" => &[
            "hash_map/mod.rs",
            "hash_map/change.rs",
            "hash_map/insert_if_absent.rs",
            "hash_map/batch/mod.rs",
        ],
        "MultiMap" => &["hash_map/multi/mod.rs", "hash_map/multi/extend.rs"],
        "Queue" => &["queue/handle.rs"],
        "BloomFilter" => &["bloom/mod.rs"],
        "Array" => &["array/hosted.rs", "array/many.rs"],
        "DArray" => &["array/distributed.rs", "array/many.rs"],
        "DMatrix" => &["array/matrix.rs"],
        ty => panic!("where is {ty}?"),
    }
}

/// The text under `# Cost` in the documentation of a method.
fn cost(ty: &str, method: &str) -> String {
    for file in files(ty) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let source = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = source.lines().map(str::trim).collect();
        let starts = [format!("pub fn {method}("), format!("pub fn {method}<")];
        let is_it = |line: &&str| starts.iter().any(|start| line.starts_with(start));
        let Some(end) = lines.iter().position(is_it) else {
            continue;
        };
        let start = lines[..end].iter().rposition(|line| *line == "/// # Cost");
        let section = lines[start.unwrap() + 2..end].iter();
        let text = section.take_while(|line| !line.starts_with("/// # "));
        let text: Vec<&str> = text
            .map(|line| line.trim_start_matches("///").trim())
            .collect();
        return text.join(" ");
    }
    panic!("{ty}::{method} is in none of {:?}", files(ty))
}

/// The prices in a text: sums such as `2A + W`.
fn prices_in(text: &str) -> BTreeSet<String> {
    let is_price = |word: &str| {
        let letter = word.trim_start_matches(|digit: char| digit.is_ascii_digit());
        ["A", "R", "W", "M", "ℓ"].contains(&letter)
    };
    let mut found = BTreeSet::new();
    let mut price = String::new();
    for word in text.split_whitespace() {
        let bare = word.trim_matches([',', '.', ';', ':', '(', ')']);
        if word == "+" && !price.is_empty() {
            price += " + ";
        } else if is_price(bare) && (price.is_empty() || price.ends_with(" + ")) {
            price += bare;
            if bare != word {
                found.insert(std::mem::take(&mut price));
            }
        } else if !price.is_empty() {
            found.insert(std::mem::take(&mut price));
        }
    }
    found.insert(price);
    found
}

#[test]
fn the_documentation_of_each_operation_states_its_prices() {
    for operation in prices::ALL {
        let (ty, method) = parts(operation);
        let text = cost(ty, method);
        let mut stated = prices_in(&text);
        // `As one [`push`](Self::push)`: what has the same prices is documented there.
        for (other, _) in text.match_indices("(Self::") {
            let other = text[other..].trim_start_matches("(Self::");
            let other = other.split(')').next().unwrap();
            stated.append(&mut prices_in(&cost(ty, other)));
        }
        for price in operation.prices() {
            let letters = price.letters();
            assert!(
                stated.contains(&letters),
                "{}: {letters} {} is not in:{text}",
                operation.name(),
                price.when
            );
            let further = format!("{}A for each further slot", price.further);
            // An operation that some method documents by message is so in the table, and only
            // there.
            let by_message: Vec<&String> = stated.iter().filter(|p| p.ends_with('M')).collect();
            let messages = match price.messages {
                0 => String::new(),
                1 => "M".to_owned(),
                n => format!("{n}M"),
            };
            let is_said = match price.messages {
                0 => by_message.is_empty(),
                _ => by_message.contains(&&messages),
            };
            assert!(
                is_said,
                "{}: {messages:?} is not in:{text}",
                operation.name()
            );
            let is_said = price.further < 2 || text.contains(&further);
            assert!(is_said, "{}: {further} is not in:{text}", operation.name());
        }
        let is_for_many = [
            "M for each rank",
            "M for some thousand",
            "M as for [`get_many`]",
        ];
        let is_for_many = is_for_many.iter().any(|words| text.contains(words));
        assert_eq!(
            operation.is_for_many(),
            is_for_many,
            "{}:{text}",
            operation.name()
        );
    }
}

/// The statistics keep only this many bytes of a name.
#[test]
fn the_prices_of_each_operation_are_not_too_long_for_the_statistics() {
    for operation in prices::ALL {
        let (name, price) = (operation.name(), operation.price());
        assert!(price.len() <= 120 && name.len() <= 48, "{name}: {price}");
    }
}

#[test]
fn prices_are_found_in_sentences() {
    let text = " present 2A + R, and A + R for a set (A). 3A + R + W; R for each; or 2M, M if new";
    let found = prices_in(text);
    let expected = ["2A + R", "A + R", "A", "3A + R + W", "R", "2M", "M"];
    assert!(
        expected.iter().all(|price| found.contains(*price)),
        "{found:?}"
    );
    assert!(!found.contains("W"), "{found:?}");
}
