//! GDB's remote protocol, spoken by hand: threads, registers, memory, breakpoints, watchpoints,
//! steps, the end; without a clock and with one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use pgas_riscv_sim::gdb::{self, Debugged};
use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::timed::config::TimedConfig;
use pgas_riscv_sim::timed::simulation::Simulation;
use pgas_riscv_sim::{Image, Machine, MachineConfig, asm};

struct Debugger(TcpStream);

impl Debugger {
    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.0.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// Sends a packet and gives the answer.
    fn ask(&mut self, packet: &str) -> String {
        self.send(packet);
        self.answer()
    }

    fn send(&mut self, packet: &str) {
        let sum = packet.bytes().fold(0, u8::wrapping_add);
        let packet = format!("${packet}#{sum:02x}");
        self.0.write_all(packet.as_bytes()).unwrap();
    }

    fn answer(&mut self) -> String {
        while self.byte() != b'$' {}
        let mut answer = String::new();
        loop {
            match self.byte() {
                b'#' => break,
                // What stands before it comes that many times more.
                b'*' => {
                    let last = answer.pop().unwrap();
                    let n_more = usize::from(self.byte() - 29);
                    answer.extend(std::iter::repeat_n(last, n_more + 1));
                }
                byte => answer.push(byte.into()),
            }
        }
        let _sum = [self.byte(), self.byte()];
        self.0.write_all(b"+").unwrap();
        answer
    }

    /// Asks for something that has to be granted.
    fn ask_ok(&mut self, packet: &str) {
        assert_eq!(self.ask(packet), "OK", "{packet}");
    }

    /// A register of a thread, from the answer to `g`.
    fn register(&mut self, thread: usize, number: usize) -> u64 {
        self.ask_ok(&format!("Hg{thread:x}"));
        let all = self.ask("g");
        u64::from_str_radix(&all[16 * number..16 * number + 16], 16)
            .unwrap()
            .swap_bytes()
    }

    /// A word of a thread's memory.
    fn word(&mut self, thread: usize, address: u64) -> u64 {
        self.ask_ok(&format!("Hg{thread:x}"));
        let word = self.ask(&format!("m{address:x},8"));
        u64::from_str_radix(&word, 16).unwrap().swap_bytes()
    }

    /// What a command of `monitor` prints.
    fn monitor(&mut self, command: &str) -> String {
        let hex: String = command.bytes().map(|byte| format!("{byte:02x}")).collect();
        let mut answer = self.ask(&format!("qRcmd,{hex}"));
        let mut text = String::new();
        while let Some(output) = answer.strip_prefix('O').filter(|_| answer != "OK") {
            for at in (0..output.len()).step_by(2) {
                text.push(u8::from_str_radix(&output[at..at + 2], 16).unwrap().into());
            }
            answer = self.answer();
        }
        text
    }
}

const PC: usize = 32;

/// Serves `run` to a debugger that does `script`. Gives what `serve` does.
fn debug(
    run: &mut dyn Debugged,
    node: usize,
    script: impl FnOnce(&mut Debugger) + Send + 'static,
) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let debugger = std::thread::spawn(move || {
        let stream = TcpStream::connect(address).unwrap();
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut debugger = Debugger(stream);
        let supported = debugger.ask("qSupported:swbreak+");
        assert!(supported.contains("swbreak+"), "{supported}");
        script(&mut debugger);
    });
    let served = gdb::serve(run, node, listener.accept().unwrap().0);
    debugger.join().unwrap();
    served.unwrap()
}

fn machine(source: &str, n_nodes: usize, cores_per_node: usize) -> (Machine, Image) {
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let config = MachineConfig {
        n_nodes,
        cores_per_node,
        ram_bytes: 1 << 16,
        quantum: 8,
        ..MachineConfig::default()
    };
    (Machine::new(&config, &image).unwrap(), image)
}

/// Floating-point, control and status registers, one by one.
fn ask_for_other_registers(debugger: &mut Debugger) {
    // f3, fcsr, and mhartid, which cannot be written.
    assert_eq!(debugger.ask("p24"), "0000000000000000");
    assert_eq!(debugger.ask("P24=000000000000f03f"), "OK");
    assert_eq!(debugger.ask("p24"), "000000000000f03f");
    assert_eq!(debugger.ask("P44=e100000000000000"), "OK");
    assert_eq!(debugger.ask("p44"), "e100000000000000");
    assert_eq!(debugger.ask("p42"), "0100000000000000");
    assert_eq!(debugger.ask("pf55"), "0000000000000000");
    assert!(debugger.ask("Pf55=0100000000000000").starts_with('E'));
    // e10, this node, and e5: 65 + 0x8c0 and so many more.
    assert_eq!(debugger.ask("p90b"), "0100000000000000");
    assert_eq!(debugger.ask("P906=0200000000000000"), "OK");
    assert_eq!(debugger.ask("p906"), "0200000000000000");
    // There is no register 0x7c0.
    assert!(debugger.ask("p801").starts_with('E'));
    let described: String = (0..10)
        .map(|part| {
            debugger.ask(&format!(
                "qXfer:features:read:target.xml:{:x},400",
                part << 10
            ))
        })
        .collect();
    for name in ["\"a0\"", "\"fa0\"", "\"fcsr\"", "\"mepc\"", "\"e31\""] {
        assert!(described.contains(name), "{name} in {described}");
    }
}

/// Each node counts to a thousand in a word of its own, waits until another word is set, and ends.
const COUNTS: &str = "
    _start: eaddi s0, e10, 0
            li a0, 5
    stop:   addi a0, a0, 1
            la t0, word
            sd a0, 0(t0)
    wait:   ld t1, 8(t0)
            beqz t1, wait
            li a0, 0
            li a7, 93
            ecall
            .data
            .balign 8
    word:   .dword 0, 0
";

#[test]
fn a_debugger_stops_nodes_looks_into_them_and_lets_them_go() {
    let (mut machine, image) = machine(COUNTS, 3, 1);
    let stop = image.address_of("stop").unwrap();
    let word = image.address_of("word").unwrap();
    let goes_on = debug(&mut machine, 1, move |gdb| {
        // The second node is shown first; threads are counted from 1.
        assert_eq!(gdb.ask("qfThreadInfo"), "m02,01,03");
        assert_eq!(gdb.ask("qThreadExtraInfo,03"), "6e6f64652032");
        assert_eq!(gdb.register(1, PC), 0x8000_0000);
        gdb.ask_ok(&format!("Z0,{stop:x},4"));
        // Each comes to the breakpoint once.
        for node in 0..3 {
            let thread = node + 1;
            let halt = gdb.ask("vCont;c");
            assert!(
                halt.contains(&format!("thread:{thread:02x};swbreak")),
                "{halt}"
            );
            let at = [PC, 8, 10].map(|number| gdb.register(thread, number));
            assert_eq!(at, [stop, node as u64, 5]);
        }
        // Alone, one does an instruction, and the others stay where they are.
        let before = [1, 2].map(|thread| gdb.register(thread, PC));
        assert_eq!(gdb.ask("vCont;s:3"), "T05thread:03;");
        assert_eq!([1, 2].map(|thread| gdb.register(thread, PC)), before);
        assert_eq!(
            [PC, 10].map(|number| gdb.register(3, number)),
            [stop + 4, 6]
        );
        gdb.ask_ok(&format!("z0,{stop:x},4"));
        for thread in 1..=3 {
            gdb.ask_ok(&format!("Hg{thread}"));
            gdb.ask_ok(&format!("M{:x},8:0100000000000000", word + 8));
        }
        assert_eq!([1, 2, 3].map(|thread| gdb.word(thread, word)), [6, 6, 0]);
        assert!(gdb.ask("m0,8").starts_with('E'));
        assert!(gdb.ask("Hg9").starts_with('E') || gdb.ask("g").starts_with('E'));
        gdb.ask_ok("Hg2");
        ask_for_other_registers(gdb);
        assert_eq!(gdb.ask("vCont;c"), "W00");
    });
    assert!(goes_on);
    for node in machine.nodes() {
        assert_eq!(
            (node.exit_code(), node.ram().read(word, 8)),
            (Some(0), Some(6))
        );
    }
}

/// Node 1 adds to a word of node 0, again and again; node 0 reads it until it has the last.
const ADDS: &str = "
    _start: eaddi s0, e10, 0
            la a1, word
            li a2, 1
            bnez s0, add
            li t1, 50
    wait:   ld t0, 0(a1)
            bne t0, t1, wait
    end:    li a0, 0
            li a7, 93
            ecall
    add:    li t1, 50
            eaddie e11, a2, 0
    next:   eamoadd.d a0, a1, a2
    after:  addi t1, t1, -1
            bnez t1, next
            j end
            .data
            .balign 64
    word:   .dword 0
";

/// Stops at accesses to node 0's word by node 1, and at node 0's own.
fn watch(run: &mut dyn Debugged, image: &Image) {
    let [word, after, wait] = ["word", "after", "wait"].map(|name| image.address_of(name).unwrap());
    let goes_on = debug(run, 0, move |gdb| {
        gdb.ask_ok(&format!("Z2,{word:x},8"));
        for n in 1..=3 {
            let halt = gdb.ask("vCont;c");
            assert_eq!(halt, format!("T05thread:01;watch:{word:08x};"));
            assert_eq!([1, 2].map(|thread| gdb.word(thread, word)), [n, 0]);
        }
        let who = format!("node 1, core 0, wrote 8 bytes at {word:#x} of node 0\n");
        assert_eq!(gdb.monitor("who"), who);
        assert_eq!(gdb.monitor("nodes").lines().count(), 2);
        assert!(gdb.monitor("help").contains("monitor who"));
        gdb.ask_ok(&format!("z2,{word:x},8"));
        // What reads: node 0's own load, and then the next instruction is to be done.
        gdb.ask_ok(&format!("Z3,{:x},1", word + 7));
        loop {
            let halt = gdb.ask("vCont;c");
            assert_eq!(halt, format!("T05thread:01;rwatch:{:08x};", word + 7));
            if gdb.monitor("who").starts_with("node 0") {
                break;
            }
        }
        assert_eq!(gdb.register(1, PC), wait + 4);
        gdb.ask_ok(&format!("z3,{:x},1", word + 7));
        assert_eq!(gdb.ask(&format!("z3,{:x},1", word + 7)), "E16");
        gdb.ask_ok(&format!("Z0,{after:x},4"));
        // Node 1 is behind an addition, and does one instruction.
        let halt = gdb.ask("vCont;c");
        assert!(halt.starts_with("T05thread:02;swbreak"), "{halt}");
        assert!(gdb.ask("vCont;s:2;c").starts_with("T05thread:02"));
        assert_eq!(gdb.register(2, PC), after + 4);
        gdb.ask_ok(&format!("z0,{after:x},4"));
        assert_eq!(gdb.ask("vCont;c"), "W00");
    });
    assert!(goes_on);
    assert_eq!(run.machine().nodes()[0].ram().read(word, 8), Some(50));
}

#[test]
fn a_watchpoint_stops_at_accesses_of_the_node_and_of_others() {
    let (mut machine, image) = machine(ADDS, 2, 1);
    watch(&mut machine, &image);
}

#[test]
fn with_a_clock_a_debugger_stops_nodes_and_changes_no_time() {
    let simulation = || {
        let (machine, image) = machine(ADDS, 2, 1);
        let simulation = Simulation::new(machine, &TimedConfig::default());
        (simulation.unwrap(), image)
    };
    let (mut alone, _) = simulation();
    alone.run(1_000_000).unwrap();
    let (mut debugged, image) = simulation();
    watch(&mut debugged, &image);
    assert_eq!(debugged.stats(), alone.stats());
}

#[test]
fn a_step_alone_with_a_clock_leaves_others_before_the_same_instruction() {
    let (machine, image) = machine(COUNTS, 4, 2);
    let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
    let stop = image.address_of("stop").unwrap();
    let goes_on = debug(&mut simulation, 0, move |gdb| {
        assert_eq!(gdb.ask("qfThreadInfo"), "m01,02,03,04,05,06,07,08");
        gdb.ask_ok(&format!("Z0,{stop:x},4"));
        // As GDB goes on from a breakpoint: without it, by one instruction.
        let mut seen = Vec::new();
        for _ in 0..8 {
            let halt = gdb.ask("vCont;c");
            let (thread, _) = halt["T05thread:".len()..].split_once(';').unwrap();
            seen.push(thread.to_owned());
            gdb.ask_ok(&format!("z0,{stop:x},4"));
            let stepped = gdb.ask(&format!("vCont;s:{thread}"));
            assert_eq!(stepped, format!("T05thread:{thread};"));
            gdb.ask_ok(&format!("Z0,{stop:x},4"));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 8, "a core passed the breakpoint: {seen:?}");
        gdb.send("k");
    });
    assert!(!goes_on, "it was killed");
}

#[test]
fn an_interrupt_stops_all_and_a_fault_is_shown_where_it_is() {
    let source = "_start: la t0, word\n wait: ld t1, 0(t0)\n beqz t1, wait\n fault: sd t1, 0(zero)
        .data\n .balign 8\n word: .dword 0\n";
    for is_timed in [false, true] {
        let (machine, image) = machine(source, 2, 1);
        let [word, fault] = ["word", "fault"].map(|name| image.address_of(name).unwrap());
        let script = move |gdb: &mut Debugger| {
            gdb.send("vCont;c");
            gdb.0.write_all(&[3]).unwrap();
            assert_eq!(gdb.answer(), "T02thread:01;");
            gdb.ask_ok("Hg2");
            gdb.ask_ok(&format!("M{word:x},8:0100000000000000"));
            // Twice, for it stands there.
            for _ in 0..2 {
                assert_eq!(gdb.ask("vCont;c"), "T0bthread:02;");
                assert_eq!(gdb.register(2, PC), fault);
            }
            gdb.ask_ok("D");
        };
        let mut machine = machine;
        if is_timed {
            let mut simulation = Simulation::new(machine, &TimedConfig::default()).unwrap();
            assert!(debug(&mut simulation, 0, script));
            let why = simulation.run(100_000).unwrap_err().to_string();
            assert!(why.contains("node 1"), "{why}");
        } else {
            assert!(debug(&mut machine, 0, script));
            let why = machine.run(100_000).unwrap_err().to_string();
            assert!(why.contains("node 1"), "{why}");
        }
    }
}

#[test]
fn a_program_that_waits_for_gdb_can_be_ended() {
    let folder = tempfile::tempdir().unwrap();
    let guest = folder.path().join("guest.s");
    std::fs::write(&guest, "_start: j _start").unwrap();
    let mut rae = Command::new(env!("CARGO_BIN_EXE_rae"));
    let rae = rae
        .arg("run")
        .arg(&guest)
        .args(["--nodes", "1", "--gdb", "0"]);
    let mut rae = rae.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stderr = rae.stderr.take().unwrap();
    BufReader::new(stderr).read_line(&mut line).unwrap();
    assert!(line.contains("waiting for GDB"), "{line}");
    let mut kill = Command::new("kill");
    let sent = kill
        .args(["-TERM", &rae.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
    let mut ended = None;
    pgas_testkit::job::eventually("the end of rae", || {
        ended = rae.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().signal(), Some(15));
}
