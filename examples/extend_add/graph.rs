//! The pattern of a sparse symmetric matrix: a graph.

use std::fs;
use std::path::Path;

/// The neighbours of each vertex, without loops.
pub(crate) struct Graph {
    neighbours: Vec<Vec<u32>>,
}

impl Graph {
    fn of(n_vertices: usize) -> Self {
        Self {
            neighbours: vec![Vec::new(); n_vertices],
        }
    }

    fn couple(&mut self, a: usize, b: usize) {
        let number = |vertex| u32::try_from(vertex).expect("a vertex has a number of 32 bits");
        if a != b {
            self.neighbours[a].push(number(b));
            self.neighbours[b].push(number(a));
        }
    }

    /// The seven-point stencil on a cube of `n` points a side.
    pub(crate) fn cube(n: usize) -> Self {
        let mut graph = Self::of(n.pow(3));
        for vertex in 0..n.pow(3) {
            for stride in [1, n, n * n] {
                if vertex / stride % n + 1 < n {
                    graph.couple(vertex, vertex + stride);
                }
            }
        }
        graph
    }

    /// The pattern of the matrix in a Matrix Market file, made symmetric.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        // Special files may have no end.
        if !fs::metadata(file)
            .map_err(|error| error.to_string())?
            .is_file()
        {
            return Err("not a regular file".into());
        }
        let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let header = text.lines().next().unwrap_or_default().to_lowercase();
        if !header.starts_with("%%matrixmarket matrix coordinate") {
            return Err("it is no Matrix Market file of coordinates".into());
        }
        let lines = text.lines().enumerate().skip(1);
        let mut lines = lines.filter(|(_, line)| !line.starts_with('%') && !line.trim().is_empty());
        let (_, sizes) = lines
            .next()
            .ok_or("it ends before the size of the matrix")?;
        let [rows, columns, n_entries] = numbers(sizes).ok_or("its size is not three numbers")?;
        if rows != columns {
            return Err(format!("the matrix has {rows} rows and {columns} columns"));
        }
        if rows > 1 << 24 {
            return Err(format!("{rows} rows are too many"));
        }
        let mut graph = Self::of(rows);
        let mut n_read = 0;
        for (i, line) in lines {
            let Some([row, column]) = numbers(line) else {
                return Err(format!("line {} is no entry", i + 1));
            };
            if !(1..=rows).contains(&row) || !(1..=rows).contains(&column) {
                return Err(format!(
                    "line {}: the matrix has {rows} rows, from 1 on",
                    i + 1
                ));
            }
            graph.couple(row - 1, column - 1);
            n_read += 1;
        }
        if n_read != n_entries {
            return Err(format!("it says {n_entries} entries and has {n_read}"));
        }
        for neighbours in &mut graph.neighbours {
            neighbours.sort_unstable();
            neighbours.dedup();
        }
        Ok(graph)
    }

    pub(crate) fn n_vertices(&self) -> usize {
        self.neighbours.len()
    }

    pub(crate) fn neighbours(&self, vertex: u32) -> &[u32] {
        &self.neighbours[vertex as usize]
    }
}

/// The first `N` numbers of a line.
fn numbers<const N: usize>(line: &str) -> Option<[usize; N]> {
    let mut words = line.split_whitespace().map(str::parse);
    let mut all = [0; N];
    for number in &mut all {
        *number = words.next()?.ok()?;
    }
    Some(all)
}
