//! The report: one page of HTML without anything from outside.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::{Trouble, can_be_written, printed};

/// What every report is asked.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Do less, in under a minute.
    #[arg(long)]
    pub(super) quick: bool,
    /// Write the figures as JSON, report.html and the plots into this folder, which is made.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Say nothing on the way, and print no tables.
    #[arg(long)]
    pub(super) quiet: bool,
}

/// One figure: what we measured beside what the paper has.
#[derive(Debug, Serialize)]
pub(super) struct Figure {
    /// The name of its files.
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// The numbers that the paper states, beside ours.
    pub(super) stated: Vec<Stated>,
    /// Why they differ, and what is assumed.
    pub(super) why: String,
    #[serde(skip)]
    pub(super) svg: Option<String>,
}

/// A number of a paper, ours, and between which ours lies under other assumptions.
#[derive(Debug, Serialize)]
pub(super) struct Stated {
    pub(super) what: String,
    pub(super) paper: f64,
    pub(super) ours: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) unit: &'static str,
}

impl Stated {
    fn verdict(&self) -> String {
        let difference = self.ours - self.paper;
        let place = if (self.least..=self.most).contains(&self.paper) {
            "within the band"
        } else {
            "outside the band"
        };
        format!("{difference:+.2}, {place}")
    }
}

/// The page's file.
const PAGE: &str = "report.html";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn table(page: &mut String, columns: &[String], rows: &[Vec<String>]) {
    *page += "<div class=\"scroll\"><table><thead><tr>";
    for column in columns {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(column));
    }
    *page += "</tr></thead><tbody>\n";
    for row in rows {
        *page += "<tr>";
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escaped(cell));
        }
        *page += "</tr>\n";
    }
    *page += "</tbody></table></div>\n";
}

/// Writes the JSON, the page and the plots into a folder, which is there.
pub(super) fn write(
    folder: &Path,
    (name, json): (&str, &serde_json::Value),
    page: &Page<'_>,
) -> Result<(), Trouble> {
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))
    };
    put(name, serde_json::to_string_pretty(json)? + "\n")?;
    put(PAGE, page.html())?;
    for figure in page.figures {
        if let Some(svg) = &figure.svg {
            put(&format!("{}.svg", figure.name), svg.clone())?;
        }
    }
    Ok(())
}

/// Makes the folder that a report is written to, if one is wanted, and sees that files can be
/// written there before anything is run.
pub(super) fn make(options: &Options, json: &str) -> Result<(), Trouble> {
    let Some(folder) = &options.out else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    for name in [json, PAGE] {
        can_be_written(&folder.join(name))?;
    }
    Ok(())
}

/// What the page has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    pub(super) title: &'a str,
    pub(super) facts: &'a str,
    pub(super) figures: &'a [Figure],
}

impl Page<'_> {
    fn html(&self) -> String {
        let Self {
            title,
            facts,
            figures,
        } = *self;
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n<style>\n\
         body{{font:16px/1.5 sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#222}}\n\
         table{{border-collapse:collapse;font-size:.85rem}}td,th{{border:1px solid #ccc;padding:.2rem .5rem;text-align:right}}\n\
         td:first-child,th:first-child{{text-align:left}}.scroll{{overflow-x:auto}}svg{{max-width:100%;height:auto}}\n\
         </style></head><body><main>\n<h1>{title}</h1>\n",
        );
        let _ = writeln!(page, "<p>{}</p>", escaped(facts));
        for figure in figures {
            let _ = writeln!(
                page,
                "<section><h2 id=\"{}\">{}</h2>",
                figure.name,
                escaped(&figure.title)
            );
            if !figure.stated.is_empty() {
                let columns = ["", "paper", "here", "band", "difference"].map(str::to_owned);
                let rows: Vec<_> = figure.stated.iter().map(row).collect();
                table(&mut page, &columns, &rows);
            }
            page += figure.svg.as_deref().unwrap_or_default();
            table(&mut page, &figure.columns, &figure.rows);
            let _ = writeln!(page, "<p>{}</p></section>", escaped(&figure.why));
        }
        page + "</main></body></html>\n"
    }
}

fn row(it: &Stated) -> Vec<String> {
    let unit = it.unit;
    vec![
        it.what.clone(),
        format!("{:.2} {unit}", it.paper),
        format!("{:.2} {unit}", it.ours),
        format!("{:.2} to {:.2}", it.least, it.most),
        it.verdict(),
    ]
}

/// Prints the same as text.
pub(super) fn print(figures: &[Figure]) -> Result<(), Trouble> {
    printed(io::stdout().write_all(text(figures).as_bytes()))
}

fn text(figures: &[Figure]) -> String {
    let mut text = String::new();
    for figure in figures {
        let _ = writeln!(text, "\n{}\n", figure.title);
        let mut lines = vec![figure.columns.clone()];
        lines.extend(figure.rows.iter().cloned());
        aligned(&mut text, &lines);
        for it in &figure.stated {
            let _ = writeln!(text, "  {}", row(it).join(" | "));
        }
    }
    text
}

fn aligned(text: &mut String, lines: &[Vec<String>]) {
    let n = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |k: usize| {
        let cells = lines.iter().filter_map(|line| line.get(k));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..n).map(width).collect();
    for line in lines {
        let cells = line.iter().zip(&widths);
        let cells: Vec<_> = cells.map(|(cell, w)| format!("{cell:<w$}")).collect();
        let _ = writeln!(text, "  {}", cells.join("  ").trim_end());
    }
}
