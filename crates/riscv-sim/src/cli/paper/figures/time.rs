//! The time that hardware saves, against the software path, the round trip and the parameters.

use super::{gain_of, least, mean, mean_of_calls, most, series, stated, texts};
use crate::cli::Trouble;
use crate::cli::paper::plan::{Compared, Experiments};
use crate::cli::paper::runs::{Row, name};
use crate::cli::paper::{BASELINE, LINKS, SOFTWARE};
use crate::cli::plots::{self, Series, Titles};
use crate::cli::report::Figure;

/// Mean gains by the baseline of each row of the sensitivity table, and of each length of links.
fn gains_elsewhere(experiments: &Experiments, rows: &[Row]) -> Vec<f64> {
    let changed = experiments.sensitive.iter().map(|it| &it.compared);
    changed
        .chain(&experiments.links)
        .map(|it| mean_gain(it, rows))
        .collect()
}

fn mean_gain(compared: &[Compared], rows: &[Row]) -> f64 {
    let gains = compared.iter().map(|it| gain_of(it, 0, rows));
    mean(&gains.collect::<Vec<_>>())
}

pub(super) fn gain(experiments: &Experiments, rows: &[Row]) -> Result<Figure, Trouble> {
    let all = || experiments.circustent.iter().chain(&experiments.gap);
    let mut table = Vec::new();
    for it in all() {
        let mut line = vec![it.name.clone(), rows[it.hardware].cycles.to_string()];
        line.extend((0..SOFTWARE.len()).map(|k| format!("{:.2} %", gain_of(it, k, rows))));
        table.push(line);
    }
    let of = |k: usize| all().map(|it| gain_of(it, k, rows)).collect::<Vec<_>>();
    let mut average = vec!["average".to_owned(), String::new()];
    average.extend((0..SOFTWARE.len()).map(|k| format!("{:.2} %", mean(&of(k)))));
    table.push(average);
    let mut columns = texts(["workload", "cycles by hardware"]);
    columns.extend(SOFTWARE.map(|it| name(it).to_owned()));
    let mut band: Vec<f64> = (0..SOFTWARE.len()).map(|k| mean(&of(k))).collect();
    band.extend(gains_elsewhere(experiments, rows));
    band.extend(mean_of_calls(experiments, rows, gain_of));
    let baseline = of(BASELINE);
    let (ours, best) = (mean(&baseline), most(&baseline));
    let each: Vec<f64> = (0..SOFTWARE.len())
        .flat_map(of)
        .chain(band.iter().copied())
        .collect();
    let titles = Titles {
        plot: "Time saved (+ additions, = compare-and-swap)",
        x: "",
        y: "%",
    };
    let groups = experiments.circustent.iter();
    let groups: Vec<_> = groups
        .map(|it| it.name.replace(" add", "+").replace(" cas", "="))
        .collect();
    let series = series(experiments, rows, gain_of);
    Ok(Figure {
        name: "figure-7",
        title: "Figure 7: time saved by hardware".to_owned(),
        columns,
        rows: table,
        stated: vec![
            stated("average, padded to 354", 17.61, ours, &band, "%"),
            stated("best, padded to 354", 23.35, best, &each, "%"),
            stated("xBGAS at IPDPS 2021, average", 21.96, ours, &band, "%"),
            stated("xBGAS at IPDPS 2021, best", 37.29, best, &each, "%"),
        ],
        why: "With the numbers of the paper's table a cold round trip takes 47 ns, and software's \
              instructions are far more than that; the paper's gains need round trips that are \
              many times as long (the figure of latency)."
            .to_owned(),
        svg: Some(plots::bars(titles, &groups, &series)?),
    })
}

/// Where a falling line through these points has that height.
fn crossing(points: &[(f64, f64)], height: f64) -> Option<f64> {
    let pair = points
        .windows(2)
        .find(|pair| pair[0].1 >= height && height >= pair[1].1)?;
    let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
    Some(x0 + (x1 - x0) * (y0 - height) / (y0 - y1).max(f64::MIN_POSITIVE))
}

pub(super) fn latency(experiments: &Experiments, rows: &[Row]) -> Result<Figure, Trouble> {
    let at = |compared: &Vec<Compared>| {
        let trips = compared.iter().map(|it| rows[it.hardware].latency_ns);
        let trip = mean(&trips.collect::<Vec<_>>());
        (trip, mean_gain(compared, rows))
    };
    let points: Vec<(f64, f64)> = experiments.links.iter().map(at).collect();
    let mut table: Vec<Vec<String>> = points
        .iter()
        .zip(LINKS)
        .map(|((trip, gain), link)| {
            vec![
                format!("link of {link} cycles"),
                format!("{trip:.1} ns"),
                format!("{gain:.2} %"),
            ]
        })
        .collect();
    for (what, height) in [("average", 17.61), ("best", 23.35)] {
        let place = crossing(&points, height);
        let place = place.map_or("beyond the last".to_owned(), |trip| format!("{trip:.0} ns"));
        table.push(vec![
            format!("the paper's {what}"),
            place,
            format!("{height:.2} %"),
        ]);
    }
    let titles = Titles {
        plot: "Time saved against the round trip, padded to 354",
        x: "mean round trip, ns",
        y: "%",
    };
    let series = [Series {
        name: "average of eight kernels".to_owned(),
        points,
    }];
    let levels = [
        ("paper, average 17.61 %", 17.61),
        ("paper, best 23.35 %", 23.35),
    ];
    Ok(Figure {
        name: "latency",
        title: "Time saved against the round trip's latency".to_owned(),
        columns: texts(["", "mean round trip", "time saved"]),
        rows: table,
        stated: Vec::new(),
        why: "Links alone are made longer. 354 instructions at 2 GHz are 177 ns, and they are \
              17.61 % of about a microsecond; so the paper's hardware round trip was some 0.6 to \
              0.9 us, if its software took about as long as we measured."
            .to_owned(),
        svg: Some(plots::points(titles, &series, &levels, true)?),
    })
}

pub(super) fn sensitivity(experiments: &Experiments, rows: &[Row]) -> Figure {
    let table = experiments.sensitive.iter().map(|it| {
        let hardware = || it.compared.iter().map(|it| &rows[it.hardware]);
        let gains: Vec<f64> = it.compared.iter().map(|it| gain_of(it, 0, rows)).collect();
        let trips: Vec<f64> = hardware().map(|row| row.latency_ns).collect();
        let misses: Vec<f64> = hardware().map(Row::miss_percent).collect();
        vec![
            it.what.clone(),
            format!("{:.1} ns", mean(&trips)),
            format!("{:.2} %", mean(&misses)),
            format!("{:.2} %", mean(&gains)),
            format!("{:.2} %", least(&gains)),
            format!("{:.2} %", most(&gains)),
        ]
    });
    Figure {
        name: "sensitivity",
        title: "What the parameters change: eight kernels with additions, software padded to 354"
            .to_owned(),
        columns: texts([
            "parameter",
            "mean round trip",
            "NIC misses",
            "time saved, average",
            "least",
            "most",
        ]),
        rows: table.collect(),
        stated: Vec::new(),
        why:
            "Parameters that do nothing here stay in the table: they show that the result does not \
              hang on them."
                .to_owned(),
        svg: None,
    }
}
