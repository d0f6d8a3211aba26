//! Tests of semantic analysis: programs are translated to HIR, and the HIR is interpreted. The expected results are
//! computed by hand.

use proptest::prelude::*;
use rnic_nano::hir::{self, BinaryOp, Expr, ExprKind, ExternCall, Program, SlotId, Stmt, Target, UnaryOp};
use rnic_nano::interpret::{Externs, Flow, Interpreter};
use rnic_nano::parser::parse_program;
use rnic_nano::sema::analyse;
use rnic_nano::source::SourceFile;

/// Externs that record their calls and return prepared results.
#[derive(Default)]
struct RecordedCalls {
    /// The name of each function that the program called, with its arguments.
    calls: Vec<(String, Vec<u128>)>,
    /// The results of the next calls, in order. Calls after the last of these results return zeros.
    results: Vec<Vec<u128>>,
}

impl Externs for RecordedCalls {
    fn call(&mut self, call: &ExternCall, arguments: &[u128]) -> Vec<u128> {
        self.calls.push((call.function.clone(), arguments.to_vec()));
        if self.results.is_empty() { Vec::new() } else { self.results.remove(0) }
    }
}

fn ingress(program: &Program) -> Interpreter<'_, RecordedCalls> {
    Interpreter::new(&program.ingress, RecordedCalls::default(), &[])
}

fn egress(program: &Program) -> Interpreter<'_, RecordedCalls> {
    Interpreter::new(&program.egress, RecordedCalls::default(), &[])
}

fn compile_with(text: &str, constants: &[(&str, u128)]) -> Result<Program, String> {
    let main = SourceFile { name: "program.p4".into(), text: text.into() };
    let (module, sources) = match parse_program(main, &|_| None) {
        Ok(read) => read,
        Err((errors, sources)) => panic!("{}", errors[0].render(&sources)),
    };
    let constants: Vec<_> = constants.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    let program = analyse(&module, &constants)
        .map_err(|errors| errors.iter().map(|error| error.render(&sources)).collect::<Vec<_>>().join("\n"))?;
    hir::check::check(&program).unwrap();
    Ok(program)
}

fn compile(text: &str) -> Program {
    compile_with(text, &[]).unwrap_or_else(|what| panic!("{what}"))
}

/// Returns a program with the given declarations at the top level (`top`) and in the ingress control (`locals`), and
/// with the given body of `apply`.
///
/// The program has the variables `meta.a` to `meta.d` of 32 bits, `meta.s` and `meta.t` (signed), `meta.w` of 128 bits,
/// `meta.f` and `meta.g` (`bool`), and two headers.
fn around(top: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <core.p4>
#include <nanotransport.p4>
header pair_t {{ bit<8> x; bit<8> y; }}
struct headers_t {{ pair_t one; pair_t two; }}
struct inner_t {{ bit<8> p; bit<8> q; }}
struct meta_t {{ bit<32> a; bit<32> b; bit<32> c; bit<32> d; int<8> s; int<8> t; bit<128> w; bool f; bool g; inner_t i; inner_t j; }}
{top}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {{
    state start {{ transition accept; }}
}}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {{
    {locals}
    apply {{ {apply} }}
}}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) {{ apply {{ }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
NanoTransport(P(), I(), E(), D()) main;
"
    )
}

/// Returns the value of `meta.a` after the ingress control of such a program has run.
fn a_after(top: &str, locals: &str, apply: &str) -> u128 {
    let program = compile(&around(top, locals, apply));
    let mut run = ingress(&program);
    run.control();
    run.get("meta.a")
}

#[test]
fn slots_are_named_after_the_architecture() {
    let program = compile(&around("", "", "reassembly.drop = arrival.trimmed;"));
    let names = |list: &[(String, hir::SlotId)]| list.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let inputs = names(&program.ingress.inputs);
    assert_eq!(&inputs[..3], ["arrival.now_ns", "arrival.frame_bytes", "arrival.trimmed"]);
    assert!(inputs.contains(&"nic.rtt_pkts".to_string()));
    let out = ["reassembly.drop", "reassembly.rx_msg_id", "reassembly.pkt_offset", "reassembly.is_last_pkt"];
    assert_eq!(names(&program.ingress.outputs), out);
    assert!(inputs.ends_with(&out.map(String::from)), "what is `inout` goes both ways");
    assert_eq!(names(&program.egress.outputs), ["link.priority"]);
    assert_eq!(program.egress.inputs[0].0, "departure.now_ns");
    let mut run = ingress(&program);
    run.set("arrival.trimmed", 1);
    run.control();
    assert_eq!(run.get("reassembly.drop"), 1);
    assert_eq!(program.ingress.headers.len(), 2);
    assert_eq!(program.ingress.headers[1].name, "hdr.two");
}

fn find(pipeline: &hir::Pipeline, name: &str) -> (SlotId, Expr) {
    let slot = pipeline.slots.iter().position(|slot| slot.name == name).unwrap();
    let id = SlotId(slot as u32);
    (id, Expr { width: pipeline.slots[slot].width, kind: ExprKind::Slot(id) })
}

fn number(value: u128, width: u32) -> Expr {
    Expr { width, kind: ExprKind::Const(value) }
}

#[test]
fn statements_are_lowered() {
    let locals = "action add(in bit<32> x) { if (meta.f) { return; } meta.a = meta.a + x; }";
    let program = compile(&around(
        "",
        locals,
        "add(meta.b); meta.w[39:32] = hdr.one.x; hdr.one.setValid(); meta.i.p = -meta.i.q;",
    ));
    let pipeline = &program.ingress;
    let [(a, a_now), (_, b), (_, f), (w, _)] =
        ["meta.a", "meta.b", "meta.f", "meta.w"].map(|name| find(pipeline, name));
    let [(_, x), (p, _), (_, q)] = ["hdr.one.x", "meta.i.p", "meta.i.q"].map(|name| find(pipeline, name));
    let (parameter, parameter_now) = find(pipeline, "add.x");
    let sum = ExprKind::Binary(BinaryOp::Add, a_now.into(), parameter_now.into());
    let expected = [
        Stmt::Assign { slot: parameter, value: b },
        Stmt::Scope(vec![
            Stmt::If { condition: f, then: vec![Stmt::Leave(0)], otherwise: vec![] },
            Stmt::Assign { slot: a, value: Expr { width: 32, kind: sum } },
        ]),
        Stmt::AssignSlice { slot: w, low: 32, value: x },
        Stmt::Assign { slot: pipeline.headers[0].valid, value: number(1, 1) },
        Stmt::Assign { slot: p, value: Expr { width: 8, kind: ExprKind::Unary(UnaryOp::Negate, q.into()) } },
    ];
    assert_eq!(pipeline.control, expected);
}

#[test]
fn the_package_accepts_explicit_type_arguments() {
    let text = around("", "", "").replace("NanoTransport(P()", "NanoTransport<headers_t, _>(P()");
    compile(&text);
    let what = compile_with(&text.replace("<headers_t, _>", "<meta_t, _>"), &[]).unwrap_err();
    assert!(what.contains("parameter 2 of `P` does not match `IngressParser`"), "{what}");
    assert!(what.contains("expected `out meta_t hdr`, found `out headers_t hdr`"), "{what}");
}

#[test]
fn operators_compute() {
    // The operands are variables, so that the compiler cannot fold the expressions: a = 100, b = 7, s = -3, t = 100.
    let first = "meta.a = 100; meta.b = 7; meta.s = -3; meta.t = 100; meta.c = nic.rtt_pkts;";
    let cases: &[(&str, u128)] = &[
        ("meta.a + meta.b * 3", 121),
        ("meta.b - meta.a", (1 << 32) - 93),
        ("meta.b |-| meta.a", 0),
        ("meta.a |+| 32w0xffffffff", 0xffff_ffff),
        ("meta.a >> 3 << 1", 24),
        ("meta.a << 32w40", 0),
        ("meta.a / 8 + meta.a % 8", 16),
        ("~meta.a & 0xff", 0x9b),
        ("-meta.b", (1 << 32) - 7),
        ("(bit<32>) meta.a[6:5]", 3),
        ("(bit<32>)(meta.a[7:0] ++ meta.b[3:0])", 0x647),
        ("(bit<32>)(bit<8>)(meta.s |-| meta.t)", 0x99),
        ("(bit<32>)(bit<8>)(meta.t |+| meta.t)", 127),
        ("(bit<32>)(bit<8>)(meta.s |-| 127 |-| 127)", 0x80),
        ("(bit<32>)(int<32>) meta.s", 0xffff_fffd),
        ("(bit<32>)(bit<8>)(meta.s >> 1)", 0xfe),
        ("meta.s < meta.t ? 32w1 : 0", 1),
        ("(bit<8>) meta.s < (bit<8>) meta.t ? 32w1 : 2", 2),
        ("meta.a > 99 && !(meta.b >= 8) || meta.b == 0 ? 5 : 32w6", 5),
        ("(bit<32>)(bit<1>)(meta.a != 100)", 0),
        ("meta.a ^ (meta.a | meta.b)", 3),
        ("(bit<32>) reg_op_t.ADD + reg_op_t.WRITE ++ 30w0", 0x4000_0002),
    ];
    for (expr, expected) in cases {
        // Concatenation has the same precedence as addition, so the test puts it in parentheses.
        let expr = expr.replace("reg_op_t.WRITE ++ 30w0", "((bit<2>) reg_op_t.WRITE ++ 30w0)");
        assert_eq!(a_after("", "", &format!("{first} meta.a = {expr};")), *expected, "{expr}");
    }
}

#[test]
fn int_constants_have_arbitrary_precision() {
    let top = "const int BIG = (1 << 100) - 1; const int SMALL = BIG >> 98; const bit<128> ALL = -(1) + (1 << 127) + (1 << 127);
const int MINUS = -7 >> 1; const bit<8> LOW = (bit<8>) MINUS; enum bit<8> kind_t { A = LOW, B = SMALL + 1 }
const inner_t PAIR = { p = 5, q = kind_t.B };";
    let apply = "meta.w = ALL; meta.a = SMALL; meta.b = (bit<32>)(bit<8>) kind_t.A; meta.i = PAIR;";
    let program = compile(&around(top, "", apply));
    let mut run = ingress(&program);
    run.control();
    assert_eq!(run.get("meta.w"), u128::MAX);
    assert_eq!((run.get("meta.a"), run.get("meta.b")), (3, 0xfc));
    assert_eq!((run.get("meta.i.p"), run.get("meta.i.q")), (5, 4));
    assert!(program.constants.contains(&("BIG".to_string(), (1 << 100) - 1)));
    assert!(!program.constants.iter().any(|(name, _)| name == "MINUS" || name == "PAIR"));
}

#[test]
fn values_of_constants_can_be_replaced() {
    let top = "const bit<8> WINDOW = 3; const bit<32> TWICE = (bit<32>) WINDOW * 2; const bool FLAG = false;";
    let text = around(top, "", "if (FLAG) { meta.a = TWICE; } else { meta.a = 1; }");
    let run = |constants: &[(&str, u128)]| {
        let program = compile_with(&text, constants)?;
        assert_eq!(program.ingress.control.len(), 1, "only one branch is left");
        let mut run = ingress(&program);
        run.control();
        Ok::<_, String>(run.get("meta.a"))
    };
    assert_eq!(run(&[]), Ok(1));
    assert_eq!(run(&[("FLAG", 1)]), Ok(6));
    assert_eq!(run(&[("FLAG", 1), ("WINDOW", 255)]), Ok(510));
    assert!(
        run(&[("WINDOW", 256)]).unwrap_err().contains("256 given for the constant `WINDOW` does not fit in `bit<8>`")
    );
    assert!(
        run(&[("WINDOV", 1)]).unwrap_err().contains("did you mean `WINDOW`? available: FLAG, TWICE, WINDOW, BOGUS")
    );
}

#[test]
fn headers_and_structs_are_copied_and_compared() {
    let apply = "hdr.one = { 1, 2 };
        if (hdr.one.isValid() && !hdr.two.isValid() && hdr.one != hdr.two) { meta.a[0:0] = 1; }
        hdr.two = hdr.one;
        if (hdr.one == hdr.two && hdr.two.y == 2) { meta.a[1:1] = 1; }
        hdr.two.y = 9;
        if (hdr.one != hdr.two) { meta.a[2:2] = 1; }
        hdr.one.setInvalid();
        if (hdr.one != hdr.two) { meta.a[3:3] = 1; }
        hdr.two.setInvalid();
        if (hdr.one == hdr.two) { meta.a[4:4] = 1; }
        meta.i = { q = 3, p = 4 };
        meta.i = { meta.i.q, meta.i.p };
        if (meta.i == { 3, 4 }) { meta.a[5:5] = 1; }
        meta.j = meta.f ? meta.j : meta.i;
        if (meta.j.p == 3 && meta.j != { 3, 5 }) { meta.a[6:6] = 1; }
        meta.a[15:8] = hdr.one.minSizeInBits();
        meta.a[15:8][3:0] = 5;";
    assert_eq!(a_after("", "", apply), 0x157f);
}

#[test]
fn actions_copy_in_and_out() {
    let locals = "
        action twice(inout bit<32> x, in bit<32> by, out bool done) { if (by == 0) { return; } x = x + by; x = x + by; done = true; }
        action outer(inout bit<32> x) { bool done; twice(x, x, done); if (done) { x = x + 1; } }
        bit<32> v = 5;";
    // The first call changes the value 5 to 15 and then to 16. The second call has the argument 0, and does not change
    // it.
    assert_eq!(a_after("", locals, "outer(v); bit<32> zero = 0; outer(zero); meta.a = v + zero;"), 16);
    // Both parameters are the same variable. The results are copied to it at the end of the action, from the first
    // parameter to the last.
    let swap = "action swap(inout bit<32> x, inout bit<32> y) { bit<32> t = x; x = y; y = t; } bit<32> v = 1;";
    assert_eq!(a_after("", swap, "swap(meta.b, v); meta.a = (meta.b << 8) | v;"), 0x100);
    let same = "action change(inout bit<32> x, inout bit<32> y) { x = 1; y = y + 2; } bit<32> v = 7;";
    assert_eq!(a_after("", same, "change(v, v); meta.a = v;"), 9);
    let names = "action sub(in bit<32> x, in bit<32> y) { meta.a = x - y; }";
    assert_eq!(a_after("", names, "sub(y = 3, x = 10);"), 7);
    // The argument is a slice of a variable, so only its four bits change.
    let part = "action set(out bit<4> x) { x = 15; }";
    assert_eq!(a_after("", part, "set(meta.a[11:8]);"), 0xf00);
}

#[test]
fn exit_copies_out_and_ends() {
    let locals = "action last(inout bit<32> x) { x = x + 1; exit; }
        action outer(out bit<32> y) { y = 4; last(y); y = 100; }";
    let program = compile(&around("", locals, "outer(meta.a); meta.a = 50;"));
    let mut run = ingress(&program);
    assert_eq!(run.control(), Flow::Exit);
    assert_eq!(run.get("meta.a"), 5);
}

#[test]
fn inner_declarations_shadow_outer_ones() {
    let top = "const bit<32> N = 1;";
    let locals = "const bit<32> N = 2; action get(out bit<32> x) { x = N; } ";
    let apply = "{ const bit<32> N = 3; bit<32> x; get(x); meta.a = (x << 8) | (N << 4) | .N; }";
    assert_eq!(a_after(top, locals, apply), 0x231);
    // An action sees only the names that are declared before the action.
    let locals = "action get(out bit<32> x) { x = N; } const bit<32> N = 2;";
    assert_eq!(a_after(top, locals, "get(meta.a);"), 1);
}

#[test]
fn calls_happen_in_order_and_only_in_chosen_branches() {
    let top = "extern bit<32> next(in bit<32> x); extern bit<32> change(inout bit<32> x);";
    let run = |apply: &str, answers: &[&[u128]]| {
        let program = compile(&around(top, "", apply));
        let mut run = ingress(&program);
        run.externs.results = answers.iter().map(|answer| answer.to_vec()).collect();
        run.control();
        let calls: Vec<String> =
            run.externs.calls.iter().map(|(name, arguments)| format!("{name}{arguments:?}")).collect();
        (run.get("meta.a"), calls.join(" "))
    };
    let said = |value, calls: &str| (value, calls.to_string());
    assert_eq!(run("meta.a = next(1) - next(2);", &[&[50], &[8]]), said(42, "next[1] next[2]"));
    // The program reads the first operand before the call changes the variable. So the sum is 10 + 3, and b is 20
    // afterwards.
    assert_eq!(
        run("meta.b = 10; meta.a = meta.b + change(meta.b); meta.a = meta.a + meta.b;", &[&[3, 20]]),
        said(33, "change[10]")
    );
    assert_eq!(run("if (meta.b == 1 && next(1) == 0) { meta.a = 1; }", &[]), said(0, ""));
    assert_eq!(run("if (meta.b == 0 && next(1) == 0) { meta.a = 1; }", &[]), said(1, "next[1]"));
    assert_eq!(run("if (meta.b == 0 || next(1) == 0) { meta.a = 1; }", &[]), said(1, ""));
    assert_eq!(run("if (meta.b == 1 || next(1) == 7) { meta.a = 1; }", &[&[7]]), said(1, "next[1]"));
    assert_eq!(run("meta.a = meta.b == 1 ? next(1) : next(2) + 1;", &[&[9]]), said(10, "next[2]"));
    assert_eq!(run("meta.a = next(next(5));", &[&[6], &[7]]), said(7, "next[5] next[6]"));
    assert_eq!(run("next(5); meta.a = 2;", &[&[6]]), said(2, "next[5]"));
    // The argument of the call is a slice of a variable.
    assert_eq!(run("bit<32> x = change(meta.a);", &[&[1, 77]]), said(77, "change[0]"));
}

#[test]
fn an_assigned_call_needs_no_copies() {
    let program =
        compile(&around("", "", "rx_msg_info_t info = get_rx_msg_info({ 1, 2, 3, 4, 5, true }); meta.f = info.fail;"));
    let [Stmt::Extern(call), Stmt::Assign { .. }] = &program.ingress.control[..] else {
        panic!("{:?}", program.ingress.control)
    };
    let names: Vec<&str> =
        call.results.iter().flatten().map(|slot| program.ingress.slots[slot.0 as usize].name.as_str()).collect();
    let fields = ["fail", "rx_msg_id", "is_new_msg", "is_new_pkt", "is_last_pkt", "ack_no"];
    assert_eq!(names, fields.map(|field| format!("info.{field}")));
    assert_eq!(call.arguments.iter().map(|argument| argument.width).collect::<Vec<_>>(), [32, 16, 32, 32, 32, 1]);
}

#[test]
fn objects_keep_their_types_and_arguments() {
    let top = "const bit<32> SIZE = 64; IfElseRaw<bit<24>>(SIZE * 2) counts; struct pair2_t { bit<8> x; inner_t i; }";
    let locals = "DualPort<pair2_t>(16) both; PriorityScheduler() order;";
    let apply = "meta.a = (bit<32>) counts.execute(meta.b, true, reg_op_t.ADD, 1, reg_op_t.READ, 0); both.write(1, { 1, { 2, 3 } });
        scheduled_t next = order.schedule(1, false, 2, 3, 4, 5); meta.b = next.credit;";
    let program = compile(&around(top, locals, apply));
    let instances: Vec<_> = program
        .instances
        .iter()
        .map(|instance| {
            (instance.name.as_str(), instance.kind.as_str(), instance.types.clone(), instance.arguments.clone())
        })
        .collect();
    let expected = [
        ("counts", "IfElseRaw", vec![24], vec![128]),
        ("I.both", "DualPort", vec![8, 8, 8], vec![16]),
        ("I.order", "PriorityScheduler", vec![], vec![]),
    ];
    assert_eq!(instances, expected);
    let mut run = ingress(&program);
    run.control();
    assert_eq!(run.externs.calls[0], ("execute".to_string(), vec![0, 1, 2, 1, 0, 0]));
    assert_eq!(run.externs.calls[1], ("write".to_string(), vec![1, 1, 2, 3]));
}

#[test]
fn tables_choose_actions() {
    let locals = "action set(bit<32> value, bool flag) { meta.a = value; meta.f = flag; }
        action add(in bit<32> x, bit<32> y) { meta.a = x + y; }
        action stop() { meta.a = 99; exit; }
        table t {
            key = { meta.b: lpm; meta.c[7:0]: exact; }
            actions = { set; add(meta.d); @defaultonly stop; NoAction; }
            const entries = {
                (0x0a000000 &&& 0xff000000, 1): set(1, true);
                (0x0a0b0000 &&& 0xffff0000, 1): set(2, false);
                (0x0a0b0c0d, 1): add(3);
                (_, 2): NoAction();
            }
            default_action = stop();
        }
        table u { key = { meta.b: ternary; meta.f: exact; } actions = { set; }
            entries = { (1 &&& 1, false): set(1, true); (3, false): set(2, true); (_, true): set(3, true); } }";
    let apply = "if (t.apply().miss) { meta.g = true; } meta.w = (bit<128>) meta.a;";
    let program = compile(&around("", locals, apply));
    let table = &program.ingress.tables[0];
    let lengths: Vec<u128> = table.entries.iter().map(|entry| entry.arguments.first().copied().unwrap_or(0)).collect();
    assert_eq!(lengths, [3, 2, 1, 0], "the longest prefix first");
    assert_eq!((table.size, table.entries_const, table.default.clone()), (4, true, Some((2, vec![]))));
    assert_eq!(program.ingress.tables[1].size, 1024);
    let run = |b: u128, c: u128| {
        let mut run = ingress(&program);
        run.set("meta.b", b);
        run.set("meta.c", c);
        run.set("meta.d", 40);
        let flow = run.control();
        (flow, run.get("meta.a"), run.get("meta.f"))
    };
    assert_eq!(run(0x0a00_0001, 1), (Flow::Next, 1, 1));
    assert_eq!(run(0x0a0b_0001, 0x101), (Flow::Next, 2, 0));
    assert_eq!(run(0x0a0b_0c0d, 1), (Flow::Next, 43, 0));
    assert_eq!(run(7, 2), (Flow::Next, 0, 0));
    assert_eq!(run(7, 1), (Flow::Exit, 99, 0));
    let order: Vec<u128> = program.ingress.tables[1].entries.iter().map(|entry| entry.arguments[0]).collect();
    assert_eq!(order, [1, 2, 3], "as written, if masks are free");
}

#[test]
fn switches_choose() {
    let locals = "action one() { } action two() { } action three() { }
        table t { key = { meta.b: exact; } actions = { one; two; three; } entries = { 1: one(); 2: two(); 3: three(); } }";
    let apply =
        "switch (t.apply().action_run) { one: { meta.a = 10; } two: three: { meta.a = 20; } default: { meta.a = 30; } }
        switch (meta.b) { 1: 2: { meta.a = meta.a + 1; } 3: { return; } default: { meta.a = meta.a + 3; } }
        meta.a = meta.a + 100;";
    let program = compile(&around("", locals, apply));
    let after = |b| {
        let mut run = ingress(&program);
        run.set("meta.b", b);
        assert_eq!(run.control(), Flow::Next);
        run.get("meta.a")
    };
    assert_eq!([1, 2, 3, 4].map(after), [111, 121, 20, 133]);
}

#[test]
fn inner_controls_initialise_their_variables_at_each_call() {
    let top = "control Count(inout bit<32> x, in bit<32> by) {
            bit<32> local; bit<32> first = 2;
            action bump(bit<32> n) { local = local + n; }
            table t { key = { x: exact; } actions = { bump; } entries = { 0: bump(5); 8: bump(7); } }
            apply { t.apply(); if (by == 3) { return; } local = local + by; x = x + local + first; }
        }
        control Twice(inout bit<32> x) { Count() inner; apply { inner.apply(x, 1); inner.apply(x, 1); } }";
    // With the key 0, `inner` adds 5 + 1 + 2 to x, which becomes 8. With the key 8, it adds 7 + 1 + 2, and x becomes
    // 18. No entry has the key 18.
    let apply = "twice.apply(meta.b); meta.a = meta.b; single.apply(meta.a, 3);";
    assert_eq!(a_after(top, "Twice() twice; Count() single;", apply), 18);
    let program = compile(&around(top, "Twice() twice; Count() single;", apply));
    let names: Vec<&str> = program.ingress.tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["twice.inner.t", "single.t"]);
}

#[test]
fn exit_ends_controls_within_controls() {
    let top = "control Last(inout bit<32> x) { apply { x = x + 1; if (x == 6) { exit; } x = 0; } }
        control Outer(out bit<32> y) { Last() last; apply { y = 5; last.apply(y); y = 100; } }";
    let program = compile(&around(top, "Outer() outer;", "outer.apply(meta.a); meta.a = 50;"));
    let mut run = ingress(&program);
    assert_eq!(run.control(), Flow::Exit);
    assert_eq!(run.get("meta.a"), 6);
}

#[test]
fn out_parameters_of_inner_controls_begin_with_zero() {
    let top = "control Give(out bit<32> x, in bool set) { bit<32> local; apply { if (set) { local = 7; x = 9; } x = x + local; } }";
    let apply = "give.apply(meta.a, true); give.apply(meta.b, false); meta.a = (meta.a << 8) | meta.b;";
    assert_eq!(a_after(top, "Give() give;", apply), 0x1000);
}

#[test]
fn a_table_can_be_applied_several_times() {
    let locals = "action add(inout bit<32> x, bit<32> y) { bit<32> local; local = local + y; x = x + local; }
        table t { key = { meta.a: exact; } actions = { add(meta.a); NoAction; }
            const default_action = add(meta.a, 100); entries = { 0: add(3); 3: add(meta.a, 4); } }";
    assert_eq!(a_after("", locals, "t.apply(); t.apply(); t.apply();"), 107);
}

#[test]
fn conditional_expressions_select_structs() {
    let top = "extern inner_t next(in bit<8> x);";
    let program =
        compile(&around(top, "", "meta.i = meta.f ? next(1) : { 7, 8 }; meta.j = meta.f ? { 1, 2 } : meta.i;"));
    let after = |f| {
        let mut run = ingress(&program);
        run.set("meta.f", f);
        run.externs.results = vec![vec![5, 6]];
        run.control();
        (run.externs.calls.len(), ["meta.i.p", "meta.i.q", "meta.j.p", "meta.j.q"].map(|name| run.get(name)))
    };
    assert_eq!(after(1), (1, [5, 6, 1, 2]));
    assert_eq!(after(0), (0, [7, 8, 7, 8]));
}

#[test]
fn enumerations_have_values() {
    let top = "enum bit<4> kind_t { A = 3, B = 9 } enum plain_t { X, Y, Z } error { Mine }";
    let locals =
        "kind_t kind = kind_t.B; plain_t plain = plain_t.Z; error what = error.Mine; kind_t cast = (kind_t) 3;";
    let apply = "switch (kind) { kind_t.A: { meta.a = 1; } kind_t.B: { meta.a = 2; } }
        switch (plain) { plain_t.Y: { meta.a = 0; } plain_t.Z: { meta.a = meta.a + 16; } }
        switch (meta.f) { true: { meta.a = 0; } default: { meta.a = meta.a + 32; } }
        if (what == error.Mine && what != error.NoError && cast == kind_t.A && kind > 8) { meta.a = meta.a + 64; }
        meta.a = meta.a + (bit<32>) kind * 1000;";
    assert_eq!(a_after(top, locals, apply), 9114);
}

#[test]
fn nested_structs_can_be_emitted() {
    let top = "struct outer_t { pair_t first; headers_t rest; }";
    let text = around(top, "", "")
        .replace("packet.emit(hdr);", "outer_t all; all.first = { 1, 2 }; all.rest.two = { 3, 4 }; packet.emit(all);");
    let program = compile(&text);
    let mut run = egress(&program);
    run.deparser();
    assert_eq!(run.emitted, [1, 2, 3, 4]);
}

const PARSER: &str = "#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<4> kind; bit<4> more; }
header long_t { bit<12> a; int<4> b; bool c; bit<7> d; }
struct headers_t { tag_t tag; long_t long; }
struct meta_t { bit<8> tags; }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    bit<8> left = arrival.hops;
    state unused { transition start; }
    state start {
        bit<8> fresh;
        packet.extract(hdr.tag);
        fresh = fresh + 1;
        meta.tags = meta.tags + fresh;
        transition select(hdr.tag.kind, hdr.tag.more) {
            (0, 0): accept;
            (1 .. 3, _): start;
            (4 &&& 4, 1): skip;
            (8, 7 &&& 3): long;
        }
    }
    state skip { packet.advance(16); transition select(left) { 0: accept; default: reject; } }
    state long { packet.extract(hdr.long); transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) { apply { } }
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { hdr.long = { 0xabc, -2, true, 5 }; } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); if (hdr.long.c) { packet.emit(hdr.long); } } }
@name(\"a b\") @rtt_pkts(4 + 5) @plain
NanoTransport(P(), I(), E(), D()) main;
";

#[test]
fn parsers_select() {
    let program = compile(PARSER);
    let run = |packet: &[u8], hops: u128| {
        let mut run = ingress(&program);
        run.packet = packet.to_vec();
        run.set("arrival.hops", hops);
        (run.parser().expect("the parser ends"), run.get("meta.tags"), run.remaining_bytes())
    };
    assert_eq!(run(&[0x00], 0), (Target::Accept, 1, 0));
    assert_eq!(run(&[0x10, 0x25, 0x3f, 0x00, 9], 0), (Target::Accept, 4, 1), "a variable of a state begins at zero");
    assert_eq!(run(&[0x10], 0), (Target::Reject, 1, 0), "too short");
    assert_eq!(run(&[0x51, 1, 2, 3], 0), (Target::Accept, 1, 1));
    assert_eq!(run(&[0x10, 0x51, 1, 2, 3], 1), (Target::Reject, 2, 1), "a variable of the parser is set once");
    assert_eq!(run(&[0x52, 1, 2], 0), (Target::Reject, 1, 2), "no case");
    let names: Vec<&str> = program.ingress.states.iter().map(|state| state.name.as_str()).collect();
    assert_eq!(names, ["before start", "start", "skip", "long"]);
    let mut run = ingress(&program);
    run.packet = vec![0x83, 0xab, 0xce, 0x85];
    assert_eq!(run.parser().expect("the parser ends"), Target::Accept);
    let fields = ["hdr.long.$valid", "hdr.long.a", "hdr.long.b", "hdr.long.c", "hdr.long.d"].map(|name| run.get(name));
    assert_eq!(fields, [1, 0xabc, 14, 1, 5]);
}

#[test]
fn deparsers_emit_valid_headers() {
    let program = compile(PARSER);
    let mut run = egress(&program);
    run.control();
    run.deparser();
    assert_eq!(run.emitted, [0xab, 0xce, 0x85, 0xab, 0xce, 0x85]);
    let expected = [("name", "a b"), ("rtt_pkts", "9"), ("plain", "")].map(|(a, b)| (a.to_string(), b.to_string()));
    assert_eq!(program.annotations, expected);
}

/// Generates a random expression of `int` constants, and its value. All intermediate values fit in 120 bits.
fn integers() -> impl Strategy<Value = (String, i128)> {
    let leaf = (-1_000_000i128..1_000_000).prop_map(|value| (format!("({value})"), value));
    leaf.prop_recursive(6, 60, 2, |inner| {
        (inner.clone(), inner, 0..8usize, 0u32..60).prop_map(|((a, x), (b, y), op, places)| {
            let small = |value: i128| (value.unsigned_abs() >> 120 == 0).then_some(value);
            let (name, b, value) = match op {
                0 => ("+", b, small(x + y)),
                1 => ("-", b, small(x - y)),
                2 => ("*", b, x.checked_mul(y).and_then(small)),
                3 => ("/", b, (x >= 0 && y > 0).then(|| x / y)),
                4 => ("%", b, (x >= 0 && y > 0).then(|| x % y)),
                5 => ("<<", places.to_string(), x.checked_mul(1 << places).and_then(small)),
                6 => (">>", places.to_string(), Some(x >> places)),
                _ => ("?", b, None),
            };
            match value {
                Some(value) => (format!("({a} {name} {b})"), value),
                None => (
                    format!("({a} < {b} ? {a} : {b})"),
                    if x < b.parse().unwrap_or(y) { x } else { b.parse().unwrap_or(y) },
                ),
            }
        })
    })
}

/// Generates a random expression of 32-bit values in two forms, and its value. The first form may read the variables
/// `meta.a` = 1, `meta.b` = 0x80000001 and `meta.c` = 0xffffffff. The second form has constants instead of these
/// variables.
fn words() -> impl Strategy<Value = (String, String, u32)> {
    let leaf = prop_oneof![
        any::<u32>().prop_map(|value| (format!("32w{value}"), format!("32w{value}"), value)),
        (0..3usize).prop_map(|which| {
            let (name, value) = [("meta.a", 1), ("meta.b", 0x8000_0001), ("meta.c", u32::MAX)][which];
            (name.to_string(), format!("32w{value}"), value)
        }),
    ];
    leaf.prop_recursive(6, 60, 2, |inner| {
        (inner.clone(), inner, 0..14usize, 0u32..40).prop_map(|((a, ca, x), (b, cb, y), op, places)| {
            let (value, format): (u32, &str) = match op {
                0 => (x.wrapping_add(y), "(A + B)"),
                1 => (x.wrapping_sub(y), "(A - B)"),
                2 => (x.wrapping_mul(y), "(A * B)"),
                3 => (x.saturating_add(y), "(A |+| B)"),
                4 => (x.saturating_sub(y), "(A |-| B)"),
                5 => (x & y, "(A & B)"),
                6 => (x | y, "(A | B)"),
                7 => (x ^ y, "(A ^ B)"),
                8 => (!x, "(~A)"),
                9 => (x.wrapping_neg(), "(-A)"),
                10 => (x.checked_shl(places).unwrap_or(0), "(A << P)"),
                11 => (x.checked_shr(places).unwrap_or(0), "(A >> P)"),
                12 => (((x as i32) >> places.min(31)) as u32, "((bit<32>)((int<32>) A >> P))"),
                _ => (
                    if (x as i32) < y as i32 { y << 16 | x >> 16 } else { x },
                    "((int<32>) A < (int<32>) B ? B[15:0] ++ A[31:16] : A)",
                ),
            };
            let fill = |a: &str, b: &str| {
                format.replace('P', &places.to_string()).replace('A', "\u{1}").replace('B', b).replace('\u{1}', a)
            };
            (fill(&a, &b), fill(&ca, &cb), value)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn int_constant_expressions_are_exact((text, value) in integers()) {
        let bits = value as u128;
        let top = format!("const int VALUE = {text}; const bit<128> BITS = (bit<128>) VALUE;");
        let program = compile(&around(&top, "", "meta.w = BITS;"));
        prop_assert!(program.constants.contains(&("BITS".to_string(), bits)), "{} is {}", text, value);
    }

    #[test]
    fn constant_folding_agrees_with_execution((text, constant, value) in words()) {
        let apply = format!("meta.a = 1; meta.b = 0x80000001; meta.c = 0xffffffff; meta.d = {text};");
        let program = compile(&around(&format!("const bit<32> VALUE = {constant};"), "", &apply));
        prop_assert!(program.constants.contains(&("VALUE".to_string(), value.into())), "{}", constant);
        let mut run = ingress(&program);
        run.control();
        prop_assert_eq!(run.get("meta.d"), u128::from(value), "{}", text);
    }
}
