//! Tables of a page.

use std::fmt::Write as _;

use crate::units::escaped;

/// The heading of a column, which also says to which side its cells are aligned.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Text(&'static str),
    Number(&'static str),
}

impl Column {
    fn parts(self) -> (&'static str, &'static str) {
        match self {
            Self::Text(name) => (name, " class=\"text\""),
            Self::Number(name) => (name, ""),
        }
    }
}

/// Tables of fewer columns are as wide as these.
const FEW: usize = 5;

/// Writes a table of `rows`, whose cells are HTML. The first cell of each is its heading. Keys
/// scroll the table where it is too wide.
pub(crate) fn write(page: &mut String, caption: &str, columns: &[Column], rows: &[Vec<String>]) {
    let caption = escaped(caption);
    let class = if columns.len() < FEW {
        " class=\"few\""
    } else {
        ""
    };
    let _ = write!(
        page,
        "<div class=\"scroll\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table{class}>\
         <caption>{caption}</caption><thead><tr>"
    );
    for (name, class) in columns.iter().map(|column| column.parts()) {
        let _ = write!(page, "<th{class} scope=\"col\">{name}</th>");
    }
    *page += "</tr></thead><tbody>\n";
    for row in rows {
        *page += "<tr>";
        for (i, (cell, column)) in row.iter().zip(columns).enumerate() {
            let (_, class) = column.parts();
            let _ = match i {
                0 => write!(page, "<th{class} scope=\"row\">{cell}</th>"),
                _ => write!(page, "<td{class}>{cell}</td>"),
            };
        }
        *page += "</tr>\n";
    }
    *page += "</tbody></table></div>\n";
}

/// A text in the form of program text.
///
/// A path breaks behind its slashes alone, so that the number of a line stays whole.
pub(crate) fn code(text: &str) -> String {
    format!("<code>{}</code>", escaped(text).replace('/', "/<wbr>"))
}
