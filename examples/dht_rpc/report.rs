//! The table of results.

use std::fmt::Write;
use std::io;

use pgas::World;

use crate::measure::Row;
use crate::support;

/// Prints the rows. Returns whether all results were right.
pub(crate) fn report(world: &World, json: bool, rows: &[Row]) -> io::Result<bool> {
    let verified = rows.iter().all(|row| row.verified);
    if json {
        let row = |row: &Row| {
            serde_json::json!({
                "bytes": row.size,
                "table": row.table,
                "insert_us": row.insert_latency,
                "find_us": row.find_latency,
                "inserts_per_second_and_rank": row.insert_rate,
                "finds_per_second_and_rank": row.find_rate,
                "verified": row.verified,
            })
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let ranks = world.n_ranks();
        let line = serde_json::json!({ "ranks": ranks, "rows": rows, "verified": verified });
        support::print(world, line)?;
        return Ok(verified);
    }
    let mut text = format!(
        "{} ranks; limit of one message {} bytes\n\
         bytes  table         insert us   find us   1000 inserts/s  1000 finds/s (a rank)",
        world.n_ranks(),
        world.capabilities().max_medium,
    );
    for row in rows {
        let (size, table) = (row.size, row.table);
        let (insert, find) = (row.insert_latency, row.find_latency);
        let (inserts, finds) = (row.insert_rate / 1e3, row.find_rate / 1e3);
        let verdict = if row.verified { "" } else { "  WRONG" };
        let line = format_args!(
            "\n{size:>5}  {table:<12} {insert:>10.2} {find:>9.2} {inserts:>16.1} {finds:>13.1}{verdict}"
        );
        text.write_fmt(line).expect("a string takes everything");
    }
    let verdict = if verified { "right" } else { "WRONG" };
    support::print(world, format_args!("{text}\nresults: {verdict}"))?;
    Ok(verified)
}
