//! Extend-add by one rank, front by front: the reference.

use crate::fronts::{Fronts, initial};

/// Whether both results equal those of one rank alone, in this rank's shares.
pub(crate) fn agrees(fronts: &Fronts<'_>, results: [&[Vec<f64>]; 2]) -> bool {
    let all = &fronts.tree.fronts;
    let mut values: Vec<Vec<f64>> = all.iter().map(|_| Vec::new()).collect();
    for (i, front) in all.iter().enumerate() {
        let n = front.rows.len();
        // The children's additions are already there.
        let added = std::mem::take(&mut values[i]);
        let mut whole = Vec::with_capacity(n * n);
        for row in &front.rows {
            whole.extend(front.rows.iter().map(|column| initial(i, *row, *column)));
        }
        whole
            .iter_mut()
            .zip(added)
            .for_each(|(value, added)| *value += added);
        let expected = |(row, column)| whole[row * n + column];
        let expected: Vec<f64> = fronts.share(i).elements().map(expected).collect();
        if results.iter().any(|result| result[i] != expected) {
            return false;
        }
        let Some(parent) = front.parent else { continue };
        let width = all[parent].rows.len();
        values[parent].resize(width * width, 0.0);
        let border = || (front.n_pivots..n).zip(&front.in_parent);
        for (row, row_in_parent) in border() {
            for (column, column_in_parent) in border() {
                let place = *row_in_parent as usize * width + *column_in_parent as usize;
                values[parent][place] += whole[row * n + column];
            }
        }
    }
    true
}
