//! The parameters of the timed machine as one TOML file, whose defaults are Table I of the RAE
//! paper and, where that is silent, the assumptions listed in this folder's README.

mod limits;
mod parts;

use serde::{Deserialize, Serialize};

pub use parts::{
    CacheConfig, CoreConfig, DirectoryConfig, DramConfig, InstructionCacheConfig, LinePolicy,
    MeshConfig, NicConfig,
};
use parts::{first_level, second_level};

/// What makes a configuration unusable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is no TOML, or has fields or values that the configuration lacks.
    #[error("the configuration cannot be read: line {line}: {}", short(source.message()))]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        source: Box<toml::de::Error>,
    },
    /// A value is out of range.
    #[error("{field} is {reason}")]
    Value {
        /// The table and the key.
        field: &'static str,
        /// What it was, and what it may be.
        reason: Box<str>,
    },
}

impl ConfigError {
    fn value(field: &'static str, value: u64, bounds: &str) -> Self {
        Self::Value {
            field,
            reason: format!("{value}, and must be {bounds}").into(),
        }
    }
}

/// The parameters of every node and of the network.
///
/// # Examples
/// ```
/// use pgas_riscv_sim::timed::config::TimedConfig;
///
/// let config = TimedConfig::from_toml("[core]\noutstanding_remote = 16\n")?;
/// assert_eq!(config.core.outstanding_remote, 16);
/// assert_eq!(config.l2.bytes, 8 << 20);
/// # Ok::<(), pgas_riscv_sim::timed::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimedConfig {
    /// Bytes of a line in every cache.
    pub line_bytes: u64,
    /// The core.
    pub core: CoreConfig,
    /// The first level of its data caches.
    #[serde(deserialize_with = "first_level")]
    pub l1: CacheConfig,
    /// The first level of its instruction caches; without one instructions are always at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l1i: Option<InstructionCacheConfig>,
    /// The second level, which holds all that the first does.
    #[serde(deserialize_with = "second_level")]
    pub l2: CacheConfig,
    /// The directory.
    pub directory: DirectoryConfig,
    /// The NIC.
    pub nic: NicConfig,
    /// The network.
    pub mesh: MeshConfig,
    /// The memory.
    pub dram: DramConfig,
}

impl Default for TimedConfig {
    fn default() -> Self {
        Self {
            line_bytes: 64,
            core: CoreConfig::default(),
            l1: CacheConfig::FIRST,
            l1i: None,
            l2: CacheConfig::SECOND,
            directory: DirectoryConfig::default(),
            nic: NicConfig::default(),
            mesh: MeshConfig::default(),
            dram: DramConfig::default(),
        }
    }
}

/// A message in one line, of which a word of the text may have any length.
fn short(message: &str) -> String {
    const MOST_LETTERS: usize = 400;
    let line = message.replace('\n', ": ");
    let cut = line.char_indices().nth(MOST_LETTERS);
    cut.map_or(line.clone(), |(end, _)| format!("{}...", &line[..end]))
}

impl TimedConfig {
    /// Reads a configuration; what the text leaves out keeps its default.
    ///
    /// # Errors
    /// [`ConfigError`] if the text is no such configuration or a value is out of range.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text).map_err(|source| {
            let at = source.span().map_or(0, |span| span.start);
            let before = text.as_bytes().iter().take(at);
            ConfigError::Syntax {
                line: 1 + before.filter(|byte| **byte == b'\n').count(),
                source: Box::new(source),
            }
        })?;
        config.validate()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_table_one() {
        let config = TimedConfig::from_toml("").unwrap();
        assert_eq!(config, TimedConfig::default());
        assert_eq!(config.core.clock_mhz, 2000);
        assert_eq!((config.l1.bytes, config.l1.ways), (16 << 10, 8));
        assert_eq!((config.l2.bytes, config.l2.ways), (8 << 20, 8));
        assert_eq!(config.nic.cache_bytes / config.line_bytes, 1024);
        assert_eq!(
            (config.nic.mshr_entries, config.nic.mshr_subentries),
            (64, 64)
        );
        assert_eq!(config.mesh.flit_bits, 32);
    }

    #[test]
    fn a_table_that_leaves_something_out_keeps_the_default_of_it() {
        let text = "[l1]\nways = 4\n[l2]\nbytes = 1048576\n[nic]\nhit_cycles = 9\n";
        let config = TimedConfig::from_toml(text).unwrap();
        let default = TimedConfig::default();
        assert_eq!((config.l1.ways, config.l1.bytes), (4, default.l1.bytes));
        assert_eq!(
            (config.l2.bytes, config.l2.ways),
            (1 << 20, default.l2.ways)
        );
        assert_eq!(config.l2.hit_cycles, default.l2.hit_cycles);
        assert_eq!(config.nic.cache_bytes, default.nic.cache_bytes);
    }

    #[test]
    fn a_written_configuration_reads_back_as_it_was() {
        let mut config = TimedConfig::default();
        config.nic.policy = LinePolicy::Retain;
        config.dram.refresh_interval_ns = 0;
        let text = toml::to_string(&config).unwrap();
        assert!(text.contains("policy = \"retain\""), "{text}");
        assert_eq!(TimedConfig::from_toml(&text).unwrap(), config);
    }

    #[test]
    fn misspelt_fields_and_bad_values_are_refused_by_name() {
        for (text, named) in [
            ("[core]\nclock = 3\n", "clock"),
            ("line_bytes = 48\n", "line_bytes"),
            ("[l1]\nbytes = 3000\nways = 8\nhit_cycles = 1\n", "l1"),
            ("[l2]\nsize = 3000\n", "size"),
            ("[nic]\nmshr_entries = 0\n", "nic.mshr_entries"),
            ("[dram]\nrefresh_ns = 9000\n", "dram.refresh_ns"),
            ("[mesh]\nflit_bits = 0\n", "mesh.flit_bits"),
            ("[nic]\npolicy = \"keep\"\n", "keep"),
            (
                "[l2]\nbytes = 4611686018427387904\nways = 8\nhit_cycles = 8\n",
                "l2",
            ),
            ("[l1]\nbytes = 0\nways = 8\nhit_cycles = 1\n", "l1"),
            (
                "[l1]\nbytes = 16384\nways = 8\nhit_cycles = 4294967295\n",
                "l1.hit_cycles",
            ),
            ("[mesh]\nrouter_cycles = 4294967295\n", "mesh.router_cycles"),
            ("[mesh]\ncolumns = 4294967295\n", "mesh.columns"),
            ("[dram]\nread_cycles = 4294967295\n", "dram.read_cycles"),
            (
                "[dram]\nrefresh_interval_ns = 4294967295\n",
                "dram.refresh_interval_ns",
            ),
        ] {
            let message = TimedConfig::from_toml(text).unwrap_err().to_string();
            assert!(message.contains(named), "{text}: {message}");
        }
    }

    #[test]
    fn a_text_that_is_no_configuration_is_told_in_one_short_line() {
        for (text, start) in [
            ("\n[cache]\n", "line 2: unknown field `cache`"),
            (&"[".repeat(100_000), "line 1: "),
            (&format!("l1 = \n{}", "x".repeat(10_000)), "line 2: "),
            (&format!("{} = 1", "x".repeat(10_000)), "line 1: unknown"),
        ] {
            let message = TimedConfig::from_toml(text).unwrap_err().to_string();
            let start = format!("the configuration cannot be read: {start}");
            assert!(message.starts_with(&start), "{message}");
            assert!(message.len() < 500 && !message.contains('\n'), "{message}");
        }
    }
}
