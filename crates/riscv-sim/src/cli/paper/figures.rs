//! The figures, from what the runs counted.

use pgas_riscv_sim::timed::config::LinePolicy;
use pgas_riscv_sim::workload::circustent::{self, Atomic, Kernel, Shape};

use super::runs::{Row, name, percent};
use super::{BASELINE, Compared, Experiments, SOFTWARE, Sizes};
use crate::cli::Trouble;
use crate::cli::plots::{self, Series, Titles};
use crate::cli::report::{Figure, Stated};

pub(super) fn figures(
    experiments: &Experiments,
    rows: &[Row],
    sizes: &Sizes,
) -> Result<Vec<Figure>, Trouble> {
    Ok(vec![
        atomics(experiments, rows)?,
        stores(experiments, rows, sizes)?,
        reduction(experiments, rows)?,
        gain(experiments, rows)?,
        scatter(sizes)?,
        misses(experiments, rows, sizes)?,
        latency(experiments, rows)?,
        sensitivity(experiments, rows),
    ])
}

#[expect(clippy::cast_precision_loss, reason = "a handful of numbers")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn texts<const N: usize>(columns: [&str; N]) -> Vec<String> {
    columns.map(str::to_owned).into()
}

fn stated(what: &str, paper: f64, ours: f64, band: &[f64], unit: &'static str) -> Stated {
    Stated {
        what: what.to_owned(),
        paper,
        ours,
        least: least(band).min(ours),
        most: most(band).max(ours),
        unit,
    }
}

/// The share of the time that hardware saves, in per cent.
fn gain_of(it: &Compared, software: usize, rows: &[Row]) -> f64 {
    100.0 - percent(rows[it.hardware].cycles, rows[it.software[software]].cycles)
}

fn reduction_of(it: &Compared, software: usize, rows: &[Row]) -> f64 {
    let (ours, theirs) = (&rows[it.hardware], &rows[it.software[software]]);
    100.0 - percent(ours.instructions, theirs.instructions)
}

fn atomics(experiments: &Experiments, rows: &[Row]) -> Result<Figure, Trouble> {
    let share = |job: usize| percent(rows[job].atomics, rows[job].instructions);
    let shares: Vec<f64> = experiments.alone.iter().map(|job| share(*job)).collect();
    let spread: Vec<f64> = experiments
        .gap
        .iter()
        .map(|it| share(it.hardware))
        .collect();
    let kernels = experiments.gap.iter().zip(&experiments.alone);
    let table = kernels.map(|(it, alone)| {
        vec![
            it.name.clone(),
            rows[*alone].atomics.to_string(),
            rows[*alone].instructions.to_string(),
            format!("{:.2} %", share(*alone)),
            format!("{:.2} %", share(it.hardware)),
        ]
    });
    let band: Vec<f64> = shares.iter().chain(&spread).copied().collect();
    let short = |it: &Compared| {
        it.name
            .replace(" Kronecker", " K")
            .replace(" uniform", " u")
    };
    let groups: Vec<_> = experiments.gap.iter().map(short).collect();
    let titles = Titles {
        plot: "Atomics among instructions (K Kronecker, u uniform)",
        x: "",
        y: "%",
    };
    let series = [Series {
        name: String::new(),
        points: shares.clone(),
    }];
    Ok(Figure {
        name: "figure-1",
        title: "Figure 1: atomics among the instructions of GAP kernels".to_owned(),
        columns: texts([
            "kernel and graph",
            "atomics",
            "instructions",
            "share",
            "share on 6 nodes, which wait",
        ]),
        rows: table.collect(),
        stated: vec![stated("average", 17.46, mean(&shares), &band, "%")],
        why: "The kernels are ours, since GAP's are not distributed: vertices push to their neighbours, an atomic an edge, in a \
              loop of 10 to 15 instructions, which bounds the share. GAP's own programs, counted instruction by instruction, \
              have 0.01 to 2.42 %. The paper does not say whose kernels it counted. Counts are of one node, which waits for nobody; \
              on six nodes what they execute while they wait at barriers is counted as well. The band is from the least to \
              the most of both."
            .to_owned(),
        svg: Some(plots::bars(titles, &groups, &series)?),
    })
}

fn stores(experiments: &Experiments, rows: &[Row], sizes: &Sizes) -> Result<Figure, Trouble> {
    let mut table = Vec::new();
    let mut ours = Vec::new();
    for &(n_nodes, job) in &experiments.stores {
        // The barriers' stores, by which the last node lets all go, belong to nobody's data.
        let n_stores = rows[job].remote_stores - n_nodes as u64;
        let share = percent(n_stores, sizes.n_stores as u64);
        let expected = 100.0 - percent(1, n_nodes as u64);
        table.push(vec![
            n_nodes.to_string(),
            n_stores.to_string(),
            format!("{share:.2} %"),
            format!("{expected:.2} %"),
        ]);
        ours.push(share);
    }
    let titles = Titles {
        plot: "Remote stores of a[b[i]] = c[i]",
        x: "nodes",
        y: "%",
    };
    let nodes = experiments.stores.iter();
    let points = nodes.zip(&ours).map(|((n, _), share)| (small(*n), *share));
    let series = [Series {
        name: "remote".to_owned(),
        points: points.collect(),
    }];
    let last = ours.last().copied().unwrap_or(0.0);
    let sampled = [last - 0.5, last + 0.5];
    Ok(Figure {
        name: "figure-2",
        title: "Figure 2: remote requests of a scatter with random indices".to_owned(),
        columns: texts(["nodes", "remote stores", "share", "1 - 1/n"]),
        rows: table,
        stated: vec![stated("64 nodes", 98.44, last, &sampled, "%")],
        why: "The paper's curve is 1 - 1/n; ours is drawn at random and lies about it as a sample does: the band is half a per \
              cent to either side."
            .to_owned(),
        svg: Some(plots::points(titles, &series, &[], true)?),
    })
}

#[expect(clippy::cast_precision_loss, reason = "numbers of nodes and of steps")]
const fn small(n: usize) -> f64 {
    n as f64
}

fn reduction(experiments: &Experiments, rows: &[Row]) -> Result<Figure, Trouble> {
    let mut table = Vec::new();
    let mut band = Vec::new();
    let mut paths = Vec::new();
    for (k, variant) in SOFTWARE.iter().enumerate() {
        let per_kernel = experiments.circustent.iter();
        let reductions: Vec<f64> = per_kernel.map(|it| reduction_of(it, k, rows)).collect();
        let first = &experiments.circustent[0];
        let path = rows[first.software[k]].path;
        let by_path = 100.0 - percent(rows[first.hardware].path, path);
        paths.push(by_path);
        band.push(mean(&reductions));
        table.push(vec![
            name(*variant).to_owned(),
            path.to_string(),
            format!("{by_path:.2} %"),
            format!("{:.2} %", mean(&reductions)),
            format!("{:.2} %", least(&reductions)),
            format!("{:.2} %", most(&reductions)),
        ]);
    }
    let groups: Vec<_> = experiments
        .circustent
        .iter()
        .map(|it| it.name.clone())
        .collect();
    let groups: Vec<_> = groups
        .iter()
        .map(|it| it.replace(" add", "+").replace(" cas", "="))
        .collect();
    let series = series(experiments, rows, reduction_of);
    let titles = Titles {
        plot: "Instructions saved (+ additions, = compare-and-swap)",
        x: "",
        y: "%",
    };
    let ours = band[BASELINE];
    band.extend(paths);
    Ok(Figure {
        name: "figure-8",
        title: "Figures 3 and 8: instructions of a remote operation".to_owned(),
        columns: texts([
            "software path",
            "instructions of an operation (hardware: 2)",
            "saved of an operation",
            "saved of a kernel, average",
            "least",
            "most",
        ]),
        rows: table,
        stated: vec![
            stated("average, padded to 354", 89.71, ours, &band, "%"),
            stated("xBGAS at IPDPS 2021, average", 69.26, ours, &band, "%"),
        ],
        why: "Kernels' counts contain what the initiator executes while it polls for the completion, and the kernel's own loop \
              around the operation. 89.71 % is close to what comes out when the first call of a cold Open MPI (2,803 \
              instructions) is compared with an unoptimised xbrtime call (282), and not when instructions of steady loops are; \
              71 % when OpenSHMEM's steady 354 are compared with xbrtime's optimised 102. We compare the bare two instructions."
            .to_owned(),
        svg: Some(plots::bars(titles, &groups, &series)?),
    })
}

/// Some figure of each kernel of CircusTent, a series a software path.
fn series(
    experiments: &Experiments,
    rows: &[Row],
    of: impl Fn(&Compared, usize, &[Row]) -> f64,
) -> Vec<Series<f64>> {
    let one = |(k, variant): (usize, &pgas_riscv_sim::workload::Variant)| Series {
        name: name(*variant).to_owned(),
        points: experiments
            .circustent
            .iter()
            .map(|it| of(it, k, rows))
            .collect(),
    };
    SOFTWARE.iter().enumerate().map(one).collect()
}

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

fn gain(experiments: &Experiments, rows: &[Row]) -> Result<Figure, Trouble> {
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
        why: "With the numbers of the paper's table a cold round trip takes 47 ns, and software's instructions are far more \
              than that; the paper's gains need round trips that are many times as long (the figure of latency)."
            .to_owned(),
        svg: Some(plots::bars(titles, &groups, &series)?),
    })
}

fn scatter(sizes: &Sizes) -> Result<Figure, Trouble> {
    let shape = Shape {
        n_iterations: 10_000,
        ..sizes.shape
    };
    // Two of SCATTER's three operations a round go to ARRAY, and the second one of these to a random word.
    let words = circustent::sequence(Kernel::Scatter, Atomic::Cas, &shape, shape.n_nodes - 1);
    let words: Vec<u64> = words.into_iter().skip(1).step_by(2).collect();
    let lines: std::collections::BTreeSet<_> = words.iter().map(|word| word / 8).collect();
    let same = words
        .windows(2)
        .filter(|pair| pair[0] / 8 == pair[1] / 8)
        .count();
    let points = (0_u32..).zip(&words).map(|(k, &word)| {
        let offset = u32::try_from(8 * word).unwrap_or(u32::MAX);
        (f64::from(k), f64::from(offset) / 1024.0)
    });
    let series = [Series {
        name: String::new(),
        points: points.step_by(5).collect(),
    }];
    let titles = Titles {
        plot: "Compare-and-swap to node 0 in SCATTER (every fifth)",
        x: "request",
        y: "KiB from the array's start",
    };
    let facts = [
        ("requests", words.len()),
        ("lines of 64 bytes among them", lines.len()),
        ("requests to the line of the one before", same),
    ];
    Ok(Figure {
        name: "figure-9",
        title: "Figure 9: where 10,000 requests of SCATTER go".to_owned(),
        columns: texts(["", ""]),
        rows: facts.map(|(what, n)| vec![what.to_owned(), n.to_string()]).into(),
        stated: Vec::new(),
        why: "The paper shows that the addresses are sparse, and has no number. The sequence is that of the sequential run, which \
              a node's requests follow."
            .to_owned(),
        svg: Some(plots::points(titles, &series, &[], false)?),
    })
}

fn misses(experiments: &Experiments, rows: &[Row], sizes: &Sizes) -> Result<Figure, Trouble> {
    let all = || experiments.caches.iter();
    let table = all().map(|(kernel, policy, n_words, job)| {
        let row = &rows[*job];
        vec![
            kernel.name().to_owned(),
            policy_name(*policy).to_owned(),
            format!("{} KiB", n_words * 8 / 1024),
            format!("{:.2} %", row.miss_percent()),
            format!("{:.2} %", percent(row.nic_merged, row.nic_requests)),
        ]
    });
    let of = |regular: bool, policy: LinePolicy| -> Vec<f64> {
        let chosen = all().filter(|it| it.0.is_regular() == regular && it.1 == policy);
        chosen.map(|it| rows[it.3].miss_percent()).collect()
    };
    let both = |regular| {
        let retained = of(regular, LinePolicy::Retain);
        let mut band = of(regular, LinePolicy::InvalidateWhenIdle);
        let ours = mean(&band);
        band.extend(retained);
        (ours, band)
    };
    let ((irregular, wide), (regular, narrow)) = (both(false), both(true));
    let groups = sizes.kernels.iter().map(|it| it.name().to_owned());
    let groups: Vec<_> = groups.collect();
    let policies = [LinePolicy::InvalidateWhenIdle, LinePolicy::Retain];
    let series = policies.map(|policy| {
        let chosen = all().filter(|it| it.1 == policy && it.2 == 1 << 16);
        Series {
            name: policy_name(policy).to_owned(),
            points: chosen.map(|it| rows[it.3].miss_percent()).collect(),
        }
    });
    let titles = Titles {
        plot: "Misses of the NIC's cache, arrays of 512 KiB",
        x: "",
        y: "%",
    };
    Ok(Figure {
        name: "figure-10",
        title: "Figure 10: misses of the NIC's cache".to_owned(),
        columns: texts(["kernel", "idle lines", "array", "misses", "merged"]),
        rows: table.collect(),
        stated: vec![
            stated("irregular, average", 85.05, irregular, &wide, "%"),
            stated("regular, average", 0.11, regular, &narrow, "%"),
        ],
        why: "Here is what the paper's text says: idle lines are invalidated, and a core has one operation under way, so that \
              hardly anything is found. 0.11 % needs lines that are kept, and an array that fits the cache and is walked often: \
              one pass over words of 8 bytes in lines of 64 misses 12.5 %, and merging 64 requests a line 1.56 %. The band is \
              from the least to the most of kernels, policies and sizes of arrays."
            .to_owned(),
        svg: Some(plots::bars(titles, &groups, &series)?),
    })
}

const fn policy_name(policy: LinePolicy) -> &'static str {
    match policy {
        LinePolicy::InvalidateWhenIdle => "invalidated",
        LinePolicy::Retain => "kept",
    }
}

/// Where a falling line through these points has that height.
fn crossing(points: &[(f64, f64)], height: f64) -> Option<f64> {
    let pair = points
        .windows(2)
        .find(|pair| pair[0].1 >= height && height >= pair[1].1)?;
    let ((x0, y0), (x1, y1)) = (pair[0], pair[1]);
    Some(x0 + (x1 - x0) * (y0 - height) / (y0 - y1).max(f64::MIN_POSITIVE))
}

fn latency(experiments: &Experiments, rows: &[Row]) -> Result<Figure, Trouble> {
    let at = |compared: &Vec<Compared>| {
        let trips = compared.iter().map(|it| rows[it.hardware].latency_ns);
        let trip = mean(&trips.collect::<Vec<_>>());
        (trip, mean_gain(compared, rows))
    };
    let points: Vec<(f64, f64)> = experiments.links.iter().map(at).collect();
    let mut table: Vec<Vec<String>> = points
        .iter()
        .zip(super::LINKS)
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
        why: "Links alone are made longer. 354 instructions at 2 GHz are 177 ns, and they are 17.61 % of about a microsecond; so \
              the paper's hardware round trip was some 0.6 to 0.9 us, if its software took about as long as we measured."
            .to_owned(),
        svg: Some(plots::points(titles, &series, &levels, true)?),
    })
}

fn sensitivity(experiments: &Experiments, rows: &[Row]) -> Figure {
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
        why: "Parameters that do nothing here stay in the table: they show that the result does not hang on them.".to_owned(),
        svg: None,
    }
}
