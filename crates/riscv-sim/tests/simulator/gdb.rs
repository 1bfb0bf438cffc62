//! GDB's remote protocol, spoken by hand: registers, memory, a breakpoint, a step, the end.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use pgas_riscv_sim::isa::Profile;
use pgas_riscv_sim::{Machine, MachineConfig, asm, gdb};

struct Debugger(TcpStream);

impl Debugger {
    fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.0.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// Sends a packet and gives the answer.
    fn ask(&mut self, packet: &str) -> String {
        let sum = packet.bytes().fold(0, u8::wrapping_add);
        write!(self.0, "${packet}#{sum:02x}").unwrap();
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

    /// A register, from the answer to `g`.
    fn register(&mut self, number: usize) -> u64 {
        let all = self.ask("g");
        u64::from_str_radix(&all[16 * number..16 * number + 16], 16)
            .unwrap()
            .swap_bytes()
    }
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

#[test]
fn a_debugger_stops_a_node_looks_into_it_and_lets_it_go() {
    let source = "_start: eaddi s0, e10, 0\n li a0, 5\n stop: addi a0, a0, 1\n la t0, word\n sd a0, 0(t0)\n
        wait: ld t1, 8(t0)\n beqz t1, wait\n li a0, 0\n li a7, 93\n ecall\n .data\n .balign 8\n word: .dword 0, 0\n";
    let image = asm::assemble(source, Profile::Rae2020).unwrap();
    let config = MachineConfig {
        n_nodes: 3,
        ram_bytes: 1 << 16,
        ..MachineConfig::default()
    };
    let machine = Machine::new(&config, &image).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, word) = (
        image.address_of("stop").unwrap(),
        image.address_of("word").unwrap(),
    );
    let debugger = std::thread::spawn(move || {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut debugger = Debugger(stream);
        assert!(debugger.ask("qSupported:swbreak+").contains("swbreak+"));
        assert_eq!(debugger.register(32), 0x8000_0000);
        assert_eq!(debugger.ask(&format!("Z0,{stop:x},4")), "OK");
        assert!(debugger.ask("c").contains("swbreak"));
        assert_eq!(
            (
                debugger.register(32),
                debugger.register(8),
                debugger.register(10)
            ),
            (stop, 1, 5)
        );
        assert_eq!(debugger.ask("s"), "S05");
        assert_eq!(
            (debugger.register(32), debugger.register(10)),
            (stop + 4, 6)
        );
        assert_eq!(debugger.ask(&format!("z0,{stop:x},4")), "OK");
        assert_eq!(
            debugger.ask(&format!("M{:x},8:0100000000000000", word + 8)),
            "OK"
        );
        assert_eq!(debugger.ask(&format!("m{word:x},8")), "0000000000000000");
        assert!(debugger.ask("m0,8").starts_with('E'));
        ask_for_other_registers(&mut debugger);
        assert_eq!(debugger.ask("c"), "W00");
    });
    let served = gdb::serve(machine, 1, listener.accept().unwrap().0);
    let machine = served.unwrap();
    debugger.join().unwrap();
    assert_eq!(machine.nodes()[1].exit_code(), Some(0));
    assert_eq!(machine.nodes()[1].ram().read(word, 8), Some(6));
    assert_eq!(
        machine.nodes()[2].exit_code(),
        None,
        "the other nodes were not told to go on"
    );
}
