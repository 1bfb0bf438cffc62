//! Making hosts, running programs on them, and removing them.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use crate::link::{Link, Switch, Traffic, mac};
use crate::{Error, Launcher, Mpirun};

/// The script of a host's first process.
const INIT: &str = include_str!("init.sh");

/// The replacement of `ssh`, which the launchers run on the first host.
const AGENT: &str = include_str!("agent.sh");

/// The maximum number of hosts: more than the processors of a test machine can serve.
const MAX_HOSTS: u32 = 64;

/// The namespaces that every host has for itself.
const NAMESPACES: [&str; 5] = ["--mount", "--uts", "--ipc", "--net", "--pid"];

/// Hosts on one machine. Dropping them ends everything that runs on them.
#[derive(Debug)]
pub struct Hosts {
    /// Dropped before the hosts, whose networks it keeps alive.
    switch: Option<Switch>,
    hosts: Vec<Host>,
}

/// One host: its first process, and its resources.
#[derive(Debug)]
struct Host {
    address: Ipv4Addr,
    /// The process that was started, an ancestor of the init process.
    child: Child,
    /// The init process lives as long as this is open.
    life: Option<ChildStdin>,
    told: BufReader<ChildStdout>,
    complaints: ChildStderr,
    /// The init process, as seen from here.
    init: u32,
    /// Its network namespace, as `/proc` shows it.
    network: PathBuf,
    /// The processes that make up the host itself.
    own: BTreeSet<u32>,
}

impl Hosts {
    /// Makes hosts, and joins them.
    ///
    /// # Errors
    ///
    /// If permissions or required programs are missing, or `n_hosts` is 0 or more than 64.
    pub fn new(n_hosts: u32, link: Link) -> Result<Self, Error> {
        if !(1..=MAX_HOSTS).contains(&n_hosts) {
            return Err(Error(format!("{n_hosts} is not between 1 and {MAX_HOSTS}")));
        }
        let mut hosts = Self {
            switch: None,
            hosts: Vec::new(),
        };
        for number in 0..n_hosts {
            let host = hosts.boot(number, n_hosts, link)?;
            hosts.hosts.push(host);
        }
        hosts.join(link)?;
        for host in &mut hosts.hosts {
            host.tell("your interface is there")?;
        }
        for host in &mut hosts.hosts {
            host.expect("up")?;
            host.network = network_of(host.init).ok_or_else(|| host.gone())?;
        }
        for number in 0..n_hosts {
            let own = hosts.processes(number).into_iter().collect();
            hosts.hosts[number as usize].own = own;
        }
        hosts.install_agent()?;
        Ok(hosts)
    }

    /// The number of hosts.
    #[must_use]
    pub fn n_hosts(&self) -> u32 {
        u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
    }

    /// The name of a host, by its number. It is also the result of its `gethostname`.
    #[must_use]
    pub fn name(host: u32) -> String {
        format!("node{host}")
    }

    /// The address of a host on the link.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    #[must_use]
    pub fn address(&self, host: u32) -> Ipv4Addr {
        self.host(host).address
    }

    /// A command that runs a program on a host, in this process's folder and with its environment,
    /// except `TMPDIR`.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    pub fn command(&self, host: u32, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.enter(host);
        command
            .args(["env", "-u", "TMPDIR", "sh", "-c", r#"cd "$0" && exec "$@""#])
            .arg(env::current_dir().unwrap_or_else(|_| "/".into()))
            .arg(program);
        command
    }

    /// The start of an MPI program on all hosts, with the library's own launcher.
    #[must_use]
    pub fn mpirun(&self, launcher: Launcher) -> Mpirun<'_> {
        Mpirun::new(self, launcher)
    }

    /// Cuts a host off from all others, as if its cable were pulled.
    ///
    /// # Panics
    ///
    /// If there is no such host, or it is the first one, or the link is not [`Link::Clean`].
    pub fn cut(&self, host: u32) {
        self.set_port(host, "down");
    }

    /// Reconnects a host that was [cut off](Self::cut).
    ///
    /// # Panics
    ///
    /// As [`cut`](Self::cut).
    pub fn mend(&self, host: u32) {
        self.set_port(host, "up");
    }

    /// Cuts the connection between two hosts permanently. Both still reach all others. Their frames
    /// to each other go to a nonexistent address.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    pub fn cut_between(&self, hosts: [u32; 2]) {
        for [from, to] in [hosts, [hosts[1], hosts[0]]] {
            let address = self.address(to);
            let nobody = format!("neighbour replace {address} lladdr 02:00:00:00:00:ff");
            let mut command = self.command(from, "ip");
            command
                .args(nobody.split(' '))
                .args(["dev", "eth0", "nud", "permanent"]);
            let done = command.status().expect("`ip` made the hosts");
            assert!(done.success(), "host {from}: {nobody}");
        }
    }

    fn set_port(&self, host: u32, state: &str) {
        assert!(
            self.switch.is_none() && host > 0 && host < self.n_hosts(),
            "host {host} has no port of the bridge"
        );
        let done = self.ip(&format!("link set port{host} {state}"));
        done.expect("the port was made with the hosts");
    }

    /// The living processes on a host, by their numbers outside of it, except those that make up
    /// the host.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    #[must_use]
    pub fn processes(&self, host: u32) -> Vec<u32> {
        let host = self.host(host);
        let pids = fs::read_dir("/proc").into_iter().flatten();
        let pids = pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(|pid| !host.own.contains(pid))
            .filter(|pid| network_of(*pid).is_some_and(|network| network == host.network))
            .collect()
    }

    /// The counters of a [`Link::Bad`]; `None` on a clean one.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.switch
            .as_ref()
            .map_or(Traffic::default(), Switch::traffic)
    }

    /// The path on the first host of the replacement of `ssh`.
    pub const AGENT_PATH: &str = "/tmp/agent";

    /// Writes a file to the first host's `/tmp`, which ends with the host.
    pub(crate) fn write_on_first(&self, path: &str, text: &str) -> io::Result<()> {
        fs::write(self.host(0).path(path), text)
    }

    fn host(&self, host: u32) -> &Host {
        self.hosts.get(host as usize).unwrap_or_else(|| {
            panic!(
                "there are {} hosts, and none is number {host}",
                self.hosts.len()
            )
        })
    }

    /// `nsenter` into a host, to be followed by a program and its arguments.
    fn enter(&self, host: u32) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.host(host).init))
            .args(NAMESPACES)
            .arg("--");
        command
    }

    /// Starts the first process of a host, which makes its mounts.
    ///
    /// The first host is made from here, and the others from within it. So its processes can enter
    /// theirs, as the launch agent must, and they end with it.
    fn boot(&self, number: u32, n_hosts: u32, link: Link) -> Result<Host, Error> {
        let mut command = if number == 0 {
            Command::new("unshare")
        } else {
            let mut command = self.enter(0);
            command.arg("unshare");
            command
        };
        let mac = match link {
            Link::Clean => "-".to_owned(),
            Link::Bad(_) => mac(number).map(|byte| format!("{byte:02x}")).join(":"),
        };
        command
            .args(NAMESPACES)
            .args(["--fork", "--kill-child=KILL", "sh", "-c", INIT, "sh"])
            .args([Self::name(number), format!("{}/24", address(number)), mac])
            .arg(table(n_hosts))
            .args(folders_to_keep())
            .env_remove("TMPDIR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .spawn()
            .map_err(|error| Error(format!("{program} (package util-linux): {error}")))?;
        let piped = "it is piped";
        let life = child.stdin.take().expect(piped);
        let told = BufReader::new(child.stdout.take().expect(piped));
        let complaints = child.stderr.take().expect(piped);
        let mut host = Host {
            address: address(number),
            init: child.id(),
            child,
            life: Some(life),
            told,
            complaints,
            network: PathBuf::new(),
            own: BTreeSet::new(),
        };
        host.expect("ready")?;
        // It waits for its network, and has no children of its own.
        host.init = youngest_descendant(host.child.id());
        Ok(host)
    }

    /// Creates the interface `eth0` of every host.
    fn join(&mut self, link: Link) -> Result<(), Error> {
        match link {
            Link::Clean => self.join_by_bridge(),
            Link::Bad(conditions) => {
                let inits: Vec<u32> = self.hosts.iter().map(|host| host.init).collect();
                let switch = Switch::start(&inits, conditions)
                    .map_err(|error| Error(format!("a tap interface of /dev/net/tun: {error}")))?;
                self.switch = Some(switch);
                Ok(())
            }
        }
    }

    /// The bridge is the first host's interface. It has a port for each other host.
    fn join_by_bridge(&self) -> Result<(), Error> {
        let mut lines = vec!["link add eth0 type bridge".to_owned()];
        for (number, host) in self.hosts.iter().enumerate().skip(1) {
            let init = self.pid_in_first(host)?;
            lines.push(format!(
                "link add port{number} type veth peer name eth0 netns {init}"
            ));
            lines.push(format!("link set port{number} master eth0 up"));
        }
        lines.iter().try_for_each(|line| self.ip(line))
    }

    /// Runs `ip` on the first host.
    fn ip(&self, line: &str) -> Result<(), Error> {
        let mut ip = self.enter(0);
        let output = ip
            .arg("ip")
            .args(line.split(' '))
            .stdin(Stdio::null())
            .output();
        let output = output.map_err(|error| Error(format!("nsenter: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let told = one_line(&output.stderr);
        Err(Error(format!("`ip {line}` (package iproute2): {told}")))
    }

    /// The number of another host's init process, as the first host sees it.
    fn pid_in_first(&self, host: &Host) -> Result<u32, Error> {
        let status = fs::read_to_string(format!("/proc/{}/status", host.init)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        // From here inwards: the last one is the number in the host's own namespace.
        let mut numbers = line.into_iter().flat_map(str::split_whitespace).rev();
        let own = if host.init == self.host(0).init { 0 } else { 1 };
        let number = numbers.nth(own).and_then(|number| number.parse().ok());
        number.ok_or_else(|| host.gone())
    }

    fn install_agent(&self) -> Result<(), Error> {
        let mut known = String::new();
        for (number, host) in (0..).zip(&self.hosts) {
            let line = format!("{} {}\n", Self::name(number), self.pid_in_first(host)?);
            known.push_str(&line);
        }
        let install = || {
            self.write_on_first("/tmp/.agent-hosts", &known)?;
            // Open MPI looks for it on every host, and runs it on the first.
            for host in &self.hosts {
                let path = host.path(Self::AGENT_PATH);
                fs::write(&path, AGENT)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
            }
            Ok(())
        };
        install().map_err(|error: io::Error| Error(format!("the launch agent: {error}")))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.switch = None;
        for host in &mut self.hosts {
            host.life = None;
        }
        for host in &mut self.hosts {
            // It ends when its input ends. Nothing can be done if the wait for it fails.
            host.child.wait().ok();
        }
    }
}

impl Host {
    /// Waits for a line of the init process.
    fn expect(&mut self, what: &str) -> Result<(), Error> {
        let mut line = String::new();
        if self.told.read_line(&mut line).is_ok() && line.trim() == what {
            return Ok(());
        }
        self.life = None;
        let mut complaints = Vec::new();
        self.complaints.read_to_end(&mut complaints).ok();
        self.child.wait().ok();
        let told = one_line(&complaints);
        let hint = if told.contains("not permitted") || told.contains("ermission denied") {
            " (it takes root with the capabilities SYS_ADMIN and NET_ADMIN; `unshare --map-root-user` gives them)"
        } else {
            ""
        };
        Err(Error(format!("{told}{hint}")))
    }

    fn tell(&mut self, line: &str) -> Result<(), Error> {
        let told = self.life.as_mut().map(|life| writeln!(life, "{line}"));
        match told {
            Some(Ok(())) => Ok(()),
            _ => Err(self.gone()),
        }
    }

    /// A file of the host, as seen from here.
    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.init))
    }

    fn gone(&self) -> Error {
        Error(format!("the host at {} has ended early", self.address))
    }
}

/// An address of the range for documentation, which no real network uses.
fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(192, 0, 2, 1).to_bits() + host)
}

/// The text of `/etc/hosts`.
fn table(n_hosts: u32) -> String {
    let line = |host| format!("\n{} {}", address(host), Hosts::name(host));
    let lines: String = (0..n_hosts).map(line).collect();
    format!("127.0.0.1 localhost{lines}")
}

/// The folders that must be visible on each host even within its own `/tmp`: this process's folder,
/// and the folder of all programs that were built with this one.
fn folders_to_keep() -> Vec<PathBuf> {
    let program = env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent).map(|folder| {
        let is_of_tests = folder.ends_with("deps");
        let built = folder.parent().filter(|_| is_of_tests);
        built.unwrap_or(folder).to_owned()
    });
    env::current_dir().ok().into_iter().chain(folder).collect()
}

fn one_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<_> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() {
        "it ended without a word".to_owned()
    } else {
        lines.join("; ")
    }
}

/// The network namespace of a process; none for one that has ended.
fn network_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Follows the chain of a process's children. Each process has at most one.
fn youngest_descendant(mut pid: u32) -> u32 {
    let parent_of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields = stat.rsplit_once(") ")?.1;
        fields.split(' ').nth(1)?.parse::<u32>().ok()
    };
    loop {
        let pids = fs::read_dir("/proc").into_iter().flatten();
        let mut pids =
            pids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        match pids.find(|child| parent_of(*child) == Some(pid)) {
            Some(child) => pid = child,
            None => return pid,
        }
    }
}
