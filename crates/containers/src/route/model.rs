//! The cost of routes by the LogGP model, and the choice of a route.

use std::sync::LazyLock;

use pgas_core::config::Routing;

use super::{Route, Shape};
use crate::{Error, Result};

/// The costs of a message in nanoseconds (Alexandrov, Ionescu, Schauser, Scheiman: LogGP, 1995).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LogGp {
    /// The latency (L): the time of a short message from one end to the other.
    pub latency_ns: f64,
    /// The overhead (o): the time of the processor at each end.
    pub overhead_ns: f64,
    /// The gap (g): the shortest time between two messages of a host.
    pub gap_ns: f64,
    /// The gap per byte (G) of long messages.
    pub byte_ns: f64,
}

/// The model that predicts the time of a route: the traffic of ranks, its costs, and the memory
/// that ranks have for it.
///
/// A round is what ranks send until all have finished: each as much as the others, to all ranks
/// alike. Ranks of a host share its network.
///
/// # Examples
///
/// ```
/// use pgas_containers::route::{Model, Route, Shape};
/// use pgas_core::config::Routing;
///
/// let (shape, message_bytes) = (Shape { n_ranks: 4096, per_host: 64 }, 4096);
/// let model = Model::shipped();
/// let routes = [Route::direct(4096), Route::of(shape, Routing::Grid)];
/// let [direct, grid] = routes.map(|route| model.predict(&route, shape, message_bytes));
/// assert!(grid.lanes_bytes < direct.lanes_bytes && grid.n_messages < direct.n_messages);
/// let chosen = model.choose(shape, message_bytes, Some(Routing::Grid)); // as `PGAS_ROUTE=grid`
/// assert_eq!((chosen.n_hops(), shape.n_hosts()), (2, 64));
///
/// let slow = Model::parse("network latency 20000 # nanoseconds")?;
/// assert_eq!(slow.network.latency_ns, 20_000.0);
/// # Ok::<(), pgas_containers::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Model {
    /// Messages between hosts.
    pub network: LogGp,
    /// Messages within a host.
    pub host: LogGp,
    /// The time to pass on an element, in nanoseconds.
    pub element_ns: f64,
    /// Bytes of an element.
    pub element_bytes: f64,
    /// Bytes that a rank sends in a round.
    pub round_bytes: f64,
    /// Bytes that the lanes of a rank may take.
    pub lanes_bytes: f64,
    /// The share of its own time by which a route has to be faster, for each hop after the first.
    pub hop_margin: f64,
}

/// The needs of a rank for a round.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prediction {
    /// Bytes of its lanes, if it sends to all ranks.
    pub lanes_bytes: f64,
    /// Messages that it sends.
    pub n_messages: f64,
    /// Nanoseconds until it has all that is for it.
    pub time_ns: f64,
}

impl Model {
    /// The model by which this library chooses.
    #[must_use]
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Model> = LazyLock::new(|| {
            let text = include_str!("loggp.txt");
            Model::parse(text).expect("a test reads it, too")
        });
        &SHIPPED
    }

    /// The model whose figures `text` has, as `loggp.txt` of this module: two words that name a
    /// figure and a number in each line, and comments behind `#`. What is not named is zero.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] with the first line that is something else, or has a number below zero.
    pub fn parse(text: &str) -> Result<Self> {
        let mut model = Self::default();
        for line in text.lines() {
            let (figure, _comment) = line.split_once('#').unwrap_or((line, ""));
            let words: Vec<&str> = figure.split_whitespace().collect();
            if !words.is_empty() && model.set(&words).is_none() {
                let text = format!("a model of routes has no figure `{}`", line.trim());
                return Err(Error::Argument(text.into()));
            }
        }
        Ok(model)
    }

    /// Sets a figure, if there is such a one.
    fn set(&mut self, words: &[&str]) -> Option<()> {
        let [of, name, number] = words else {
            return None;
        };
        let number: f64 = number.parse().ok()?;
        let is_figure = number.is_finite() && number >= 0.0;
        *self.figure(of, name).filter(|_| is_figure)? = number;
        Some(())
    }

    /// The figure of that name.
    fn figure(&mut self, of: &str, name: &str) -> Option<&mut f64> {
        let messages = match (of, name) {
            ("element", "nanoseconds") => return Some(&mut self.element_ns),
            ("element", "bytes") => return Some(&mut self.element_bytes),
            ("round", "bytes") => return Some(&mut self.round_bytes),
            ("lanes", "bytes") => return Some(&mut self.lanes_bytes),
            ("hop", "margin") => return Some(&mut self.hop_margin),
            ("network", _) => &mut self.network,
            ("host", _) => &mut self.host,
            _ => return None,
        };
        match name {
            "latency" => Some(&mut messages.latency_ns),
            "overhead" => Some(&mut messages.overhead_ns),
            "gap" => Some(&mut messages.gap_ns),
            "byte" => Some(&mut messages.byte_ns),
            _ => None,
        }
    }

    /// The route for ranks of this shape that send up to `message_bytes` together: the fastest one
    /// whose lanes fit, or the one with the fewest lanes if none fit. A route with more hops has to
    /// be faster by a margin. `wanted` restricts the choice to routes of this kind, if there are
    /// enough ranks for it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a few hops")]
    pub fn choose(&self, shape: Shape, message_bytes: u64, wanted: Option<Routing>) -> Route {
        let kind = wanted.map(|wanted| Route::of(shape, wanted).routing());
        let is_wanted = |route: &Route| kind.is_none_or(|kind| kind == route.routing());
        let cost = |route: &Route| {
            let predicted = self.predict(route, shape, message_bytes);
            let excess = (predicted.lanes_bytes - self.lanes_bytes).max(0.0);
            let n_more = route.n_hops() - 1;
            (
                excess,
                predicted.time_ns * (1.0 + self.hop_margin * n_more as f64),
            )
        };
        let routes = Route::all(shape).filter(is_wanted);
        // The first one of equals, which has the fewest hops.
        let best = routes.min_by(|a, b| {
            let (a, b) = (cost(a), cost(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        best.unwrap_or_else(|| Route::direct(shape.n_ranks))
    }

    /// The predicted cost of a round by a route, if ranks send up to `message_bytes` together.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and bytes are less than 2^53"
    )]
    pub fn predict(&self, route: &Route, shape: Shape, message_bytes: u64) -> Prediction {
        let mut predicted = Prediction {
            lanes_bytes: route.n_lanes() as f64 * message_bytes as f64,
            n_messages: 0.0,
            time_ns: 0.0,
        };
        for hop in 0..route.n_hops() {
            self.add_hop(&mut predicted, (route, hop), shape, message_bytes as f64);
        }
        predicted
    }

    /// Adds the cost of a hop. Each lane has its share of the bytes, and sends at least one
    /// message, which says that there are no more.
    fn add_hop(
        &self,
        predicted: &mut Prediction,
        (route, hop): (&Route, usize),
        shape: Shape,
        message_bytes: f64,
    ) {
        let n_lanes = route.n_lanes_of(hop);
        if n_lanes == 0 {
            // No ranks send nothing.
            return;
        }
        let bytes = self.round_bytes / f64::from(n_lanes);
        let messages = (bytes / message_bytes).ceil().max(1.0);
        // Lanes of a hop lead to ranks whose numbers differ by multiples of the digit's place
        // value.
        let n_local = (shape.per_host / route.stride(hop)).clamp(1, n_lanes);
        let local = f64::from(n_local - 1);
        let remote = f64::from(n_lanes - n_local);
        let per_host = f64::from(shape.per_host.max(1));
        // Each rank receives as much as it sends.
        let processor =
            2.0 * messages * (local * self.host.overhead_ns + remote * self.network.overhead_ns);
        let memory = local * (messages * self.host.gap_ns + bytes * self.host.byte_ns);
        let wire =
            per_host * remote * (messages * self.network.gap_ns + bytes * self.network.byte_ns);
        let latency = match () {
            () if remote > 0.0 => self.network.latency_ns,
            () if local > 0.0 => self.host.latency_ns,
            () => 0.0,
        };
        let passed_on = if hop == 0 {
            0.0
        } else {
            self.round_bytes / self.element_bytes
        };
        predicted.n_messages += messages * (local + remote);
        predicted.time_ns += latency + (processor + memory + passed_on * self.element_ns).max(wire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(n_ranks: u32) -> Shape {
        Shape::one_rank_a_host(n_ranks)
    }

    const MESSAGE: u64 = 32 << 10;

    #[test]
    fn no_ranks_send_nothing() {
        let predicted = Model::shipped().predict(&Route::direct(0), flat(0), MESSAGE);
        assert_eq!((predicted.n_messages, predicted.time_ns), (0.0, 0.0));
    }

    #[test]
    fn the_shipped_figures_are_read() {
        let model = Model::shipped();
        assert!(model.network.latency_ns > model.host.latency_ns);
        assert_eq!(model.lanes_bytes, f64::from(64 << 20));
        assert!(model.hop_margin > 0.0);
        let text = "network gap 7 # ns\n\n# nothing\nelement bytes 8.5";
        let model = Model::parse(text).unwrap();
        assert_eq!((model.network.gap_ns, model.element_bytes), (7.0, 8.5));
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        for line in [
            "network gap",
            "network gap x",
            "network gap -1",
            "network gap NaN",
            "host width 3",
            "element gap 3",
            "lanes bytes 3 4",
            "gap 3",
        ] {
            let error = Model::parse(&format!("host gap 1\n{line}")).unwrap_err();
            assert!(error.to_string().contains(line), "{error}");
        }
    }

    /// Computed by hand: LogGP for 4 ranks on hosts of their own that send 64 KiB in messages of 16
    /// KiB.
    #[test]
    fn a_prediction_is_what_the_model_says() {
        let network = LogGp {
            latency_ns: 1000.0,
            overhead_ns: 10.0,
            gap_ns: 100.0,
            byte_ns: 0.5,
        };
        let model = Model {
            network,
            element_ns: 1.0,
            element_bytes: 16.0,
            round_bytes: 65_536.0,
            lanes_bytes: 1e9,
            ..Model::default()
        };
        let direct = model.predict(&Route::direct(4), flat(4), 16 << 10);
        // To each of 3 ranks 16 KiB, in one message.
        assert_eq!(direct.n_messages, 3.0);
        assert_eq!(direct.lanes_bytes, 65_536.0);
        assert_eq!(direct.time_ns, 1000.0 + 3.0 * (100.0 + 8192.0));
        let grid = Route::of(flat(4), Routing::Grid);
        let grid = model.predict(&grid, flat(4), 16 << 10);
        // Twice 32 KiB in two messages to another rank, and 4096 elements are passed on.
        assert_eq!(grid.n_messages, 4.0);
        assert_eq!(grid.lanes_bytes, 65_536.0);
        assert_eq!(grid.time_ns, 2.0 * (1000.0 + 2.0 * 100.0 + 16_384.0));
        // On one host nothing is on the wire.
        let shape = Shape {
            n_ranks: 4,
            per_host: 4,
        };
        let host = LogGp {
            latency_ns: 5.0,
            overhead_ns: 7.0,
            gap_ns: 1.0,
            byte_ns: 0.25,
        };
        let local = Model { host, ..model }.predict(&Route::direct(4), shape, 16 << 10);
        assert_eq!(local.time_ns, 5.0 + 3.0 * (2.0 * 7.0 + 1.0 + 4096.0));
    }

    /// The default: lanes of 65,536 ranks take no more than 64 MiB, whatever the hosts, and a few
    /// ranks send to each other directly.
    #[test]
    fn lanes_are_bounded_for_any_number_of_ranks() {
        let model = Model::shipped();
        for power in 1..=16 {
            for n_ranks in [1 << power, (1_u32 << power) - 1, (1 << power) / 3 * 2 + 1] {
                for per_host in [1, 2, 8, 48, 64, 128].into_iter().filter(|n| *n <= n_ranks) {
                    let shape = Shape { n_ranks, per_host };
                    let route = model.choose(shape, MESSAGE, None);
                    let bytes = route.n_lanes() * MESSAGE;
                    assert!(bytes <= 64 << 20, "{shape:?}: {route:?}");
                    assert!(
                        n_ranks > 64 || route == Route::direct(n_ranks),
                        "{shape:?}: {route:?}"
                    );
                }
            }
        }
        let all = model.choose(flat(65_536), MESSAGE, None);
        assert_ne!(all.routing(), Routing::Direct);
        let direct = model.choose(flat(65_536), MESSAGE, Some(Routing::Direct));
        assert_eq!(direct.n_lanes() * MESSAGE, 2 << 30);
    }

    /// The chosen route is the fastest of those whose lanes fit, or has fewer hops and is nearly as
    /// fast.
    #[test]
    fn no_other_route_that_fits_is_faster() {
        let model = Model::shipped();
        for n_ranks in [2, 64, 300, 1000, 4096, 65_536] {
            for per_host in [1, 2, 16, 64].into_iter().filter(|n| *n <= n_ranks) {
                let shape = Shape { n_ranks, per_host };
                let time = |route: &Route| model.predict(route, shape, MESSAGE).time_ns;
                let chosen = model.choose(shape, MESSAGE, None);
                let fits = |route: &Route| route.n_lanes() * MESSAGE <= 64 << 20;
                for other in Route::all(shape).filter(fits) {
                    let is_longer = other.n_hops() > chosen.n_hops();
                    let slack = if is_longer { 1.5 } else { 1.0 };
                    assert!(
                        time(&chosen) <= slack * time(&other),
                        "{chosen:?} {other:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_longer_route_has_to_be_worth_it() {
        let network = LogGp {
            overhead_ns: 1.0,
            ..LogGp::default()
        };
        let model = Model {
            network,
            element_bytes: 16.0,
            lanes_bytes: 1e9,
            ..Model::default()
        };
        // 15 messages, 3 and 3, or 1, 1 and 3.
        let routing = |hop_margin| {
            Model {
                hop_margin,
                ..model
            }
            .choose(flat(16), 1024, None)
            .routing()
        };
        let chosen = [0.0, 1.4, 1.6].map(routing);
        assert_eq!(chosen, [Routing::Cube, Routing::Grid, Routing::Direct]);
    }

    /// The choice is the fastest route that fits, or the one with the fewest lanes.
    #[test]
    fn lanes_that_do_not_fit_are_not_chosen() {
        let network = LogGp {
            byte_ns: 1.0,
            ..LogGp::default()
        };
        // 27 lanes, 5 and 6, or 3, 3 and 3; each hop more moves all bytes once more.
        let routing = |n_lanes: u32| {
            let model = Model {
                network,
                element_bytes: 16.0,
                round_bytes: 1e6,
                lanes_bytes: f64::from(n_lanes) * 1024.0,
                ..Model::default()
            };
            model.choose(flat(27), 1024, None).routing()
        };
        assert_eq!(routing(27), Routing::Direct);
        assert_eq!([26, 11].map(routing), [Routing::Grid; 2]);
        assert_eq!([10, 9, 1].map(routing), [Routing::Cube; 3]);
    }

    #[test]
    fn a_kind_of_route_that_is_asked_for_is_taken() {
        let model = Model::shipped();
        for routing in [Routing::Direct, Routing::Grid, Routing::Cube] {
            let route = model.choose(flat(64), MESSAGE, Some(routing));
            assert_eq!(route.routing(), routing);
        }
        let route = model.choose(flat(3), MESSAGE, Some(Routing::Cube));
        assert_eq!(route.routing(), Routing::Direct);
    }

    /// If many ranks share a host's network, the first hop combines what they send.
    #[test]
    fn ranks_of_a_host_send_together() {
        let shape = Shape {
            n_ranks: 65_536,
            per_host: 64,
        };
        let route = Model::shipped().choose(shape, MESSAGE, None);
        assert_eq!(route.n_lanes_of(0), 64, "{route:?}");
    }
}
