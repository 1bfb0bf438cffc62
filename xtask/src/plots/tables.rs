//! Tables of a Markdown file, and the numbers in their cells.

use anyhow::{Context as _, Result, bail};

/// From the least to the most of several measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) least: f64,
    pub(super) most: f64,
}

/// A table with the section that it is in.
#[derive(Clone, Debug)]
pub(super) struct Table {
    section: String,
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// A file's tables.
#[derive(Clone, Debug)]
pub(super) struct Document(Vec<Table>);

/// A named line through points.
pub(super) type Line = (String, Vec<(f64, f64)>);

impl Document {
    pub(super) fn parse(text: &str) -> Self {
        let mut section = String::new();
        let mut tables: Vec<Table> = Vec::new();
        let mut is_inside = false;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("## ") {
                name.clone_into(&mut section);
            }
            let Some(cells) = cells(line) else {
                is_inside = false;
                continue;
            };
            match tables.last_mut().filter(|_| is_inside) {
                // The line below the heading.
                Some(_)
                    if cells
                        .iter()
                        .all(|cell| cell.trim_matches(['-', ':']).is_empty()) => {}
                Some(table) => table.rows.push(cells),
                None => tables.push(Table {
                    section: section.clone(),
                    heading: cells,
                    rows: Vec::new(),
                }),
            }
            is_inside = true;
        }
        // A dash or nothing in all columns but the first is a row all the same.
        Self(tables)
    }

    /// The tables of a section whose second column begins so, as one: they have the same columns.
    pub(super) fn table(&self, section: &str, column: &str) -> Result<Table> {
        let mut found = self.0.iter().filter(|table| {
            let second = table.heading.get(1).map(String::as_str).unwrap_or_default();
            table.section.starts_with(section) && second.starts_with(column)
        });
        let first = found.next();
        let first = first.with_context(|| format!("no table in {section:?} has {column:?}"))?;
        let mut table = first.clone();
        for other in found.filter(|other| other.heading == table.heading) {
            table.rows.extend(other.rows.iter().cloned());
        }
        Ok(table)
    }
}

fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(
        inner
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect(),
    )
}

impl Table {
    /// The rows' names: their first cells, with how much at a time, where that is the second one.
    pub(super) fn names(&self) -> Vec<String> {
        let has_amount = self.heading.get(1).is_some_and(|name| name == "at a time");
        let name = |row: &Vec<String>| {
            let name = row[0].replace('`', "");
            match row.get(1).filter(|_| has_amount) {
                Some(amount) if amount != "1" => format!("{name}, {amount}"),
                _ => name,
            }
        };
        self.rows.iter().map(name).collect()
    }

    fn column(&self, name: &str) -> Result<Vec<&str>> {
        let index = self
            .heading
            .iter()
            .position(|column| column.starts_with(name));
        let index = index.with_context(|| format!("there is no column {name:?}"))?;
        let cell = |row: &'_ Vec<String>| row.get(index).map(String::len);
        if self.rows.iter().any(|row| cell(row).is_none()) {
            bail!("a row of {:?} is too short", self.section);
        }
        Ok(self.rows.iter().map(|row| row[index].as_str()).collect())
    }

    /// The ratios in a column: all numbers of a cell, or, where floor and figure are in it, too,
    /// those behind a colon, or in bold.
    pub(super) fn ratios(&self, column: &str) -> Result<Vec<Option<Range>>> {
        let ratio = |cell: &str| {
            let behind = cell.rsplit_once(": ").map_or(cell, |(_, ratios)| ratios);
            let bold = behind.split_once("**").map_or(behind, |(_, bold)| bold);
            range(bold)
        };
        Ok(self.column(column)?.into_iter().map(ratio).collect())
    }

    /// The numbers in a column.
    pub(super) fn values(&self, column: &str) -> Result<Vec<Range>> {
        let cells = self.column(column)?.into_iter();
        cells
            .map(|cell| range(cell).with_context(|| format!("{cell:?} is no number")))
            .collect()
    }

    /// A line for each row, over the numbers of the heading.
    pub(super) fn lines(&self) -> Result<Vec<Line>> {
        let number = |cell: &String| range(cell).with_context(|| format!("{cell:?} is no number"));
        let x: Vec<Range> = self.heading[1..]
            .iter()
            .map(number)
            .collect::<Result<_>>()?;
        let line = |row: &Vec<String>| {
            let y: Vec<Range> = row[1..].iter().map(number).collect::<Result<_>>()?;
            let points = x.iter().zip(y).map(|(x, y)| (x.least, y.least));
            Ok((row[0].clone(), points.collect()))
        };
        self.rows.iter().map(line).collect()
    }
}

/// The least and the most of the numbers in a text, such as `1.44 to 1.47` or `64 Ki`.
fn range(text: &str) -> Option<Range> {
    let is_number = |letter: char| letter.is_ascii_digit() || matches!(letter, '.' | ',');
    let unit = |rest: &str| match rest.trim_start() {
        rest if rest.starts_with("Ki") => 1024.0,
        rest if rest.starts_with("Mi") => 1024.0 * 1024.0,
        _ => 1.0,
    };
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let number = &rest[start..];
        let end = number
            .find(|letter| !is_number(letter))
            .unwrap_or(number.len());
        let digits = number[..end].trim_end_matches([',', '.']).replace(',', "");
        rest = &number[end..];
        found.push(digits.parse::<f64>().ok()? * unit(rest));
    }
    let least = found.iter().copied().reduce(f64::min)?;
    let most = found.iter().copied().reduce(f64::max)?;
    Some(Range { least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_the_cells_as_they_are_written() {
        let found = |text| range(text).map(|range| (range.least, range.most));
        assert_eq!(found("1.44 to 1.47"), Some((1.44, 1.47)));
        assert_eq!(found("0.96, 0.93"), Some((0.93, 0.96)));
        assert_eq!(found("14,110"), Some((14_110.0, 14_110.0)));
        assert_eq!(found("64 Ki"), Some((65_536.0, 65_536.0)));
        assert_eq!(found("-"), None);
    }

    #[test]
    fn a_table_is_found_by_its_section_and_its_second_column() {
        let text = "## One\n| | floor | ours, ratio |\n|---|---|---|\n| a `b` | 5 | 6: 1.2 1.3 |\n| c | 4 | 4, **1.0** |\n\ntext\n\
            ## Two\n| x | 2 | 4 Ki |\n|---|---|---|\n| y | 0.5 | 1 |\n";
        let document = Document::parse(text);
        let table = document.table("One", "floor").unwrap();
        assert_eq!(table.names(), ["a b", "c"]);
        let ratios = table.ratios("ours").unwrap();
        let first = Range {
            least: 1.2,
            most: 1.3,
        };
        let second = Range {
            least: 1.0,
            most: 1.0,
        };
        assert_eq!(ratios, [Some(first), Some(second)]);
        let lines = document.table("Two", "2").unwrap().lines().unwrap();
        assert_eq!(lines, [("y".to_owned(), vec![(2.0, 0.5), (4096.0, 1.0)])]);
        assert!(document.table("Two", "floor").is_err());
    }
}
