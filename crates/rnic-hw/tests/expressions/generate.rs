//! Random programs whose egress header consists of the values of random expressions.

use super::bits::Bits;
use rnic_transport::message::Departure;
use std::cmp::Ordering;
use std::fmt::Write as _;

/// The widths of operands.
const WIDTHS: [usize; 17] = [1, 2, 3, 7, 8, 9, 12, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96];
/// The widths of shift counts.
const COUNTS: [usize; 6] = [2, 3, 8, 9, 16, 32];

/// A random generator (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = random.next());
        random
    }

    pub(super) fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.next() % bound
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}

/// The operands of a packet: two numbers that the program concatenates from the fields of the departure.
pub(super) struct Operands([Bits; 2]);

/// The declarations of both numbers.
const NUMBERS: &str = "\
        bit<96> p = departure.dst_ip ++ departure.msg_len ++ departure.tx_msg_id;
        bit<96> q = departure.dst_context ++ departure.src_context ++ departure.credit ++ departure.payload \
    ++ departure.rank ++ departure.flags;\n";

impl Operands {
    pub(super) fn of(d: &Departure) -> Operands {
        let joined = |fields: &[(u32, usize)]| {
            fields.iter().fold(Bits(Vec::new()), |all, (value, width)| all.above(&Bits::new((*value).into(), *width)))
        };
        let p = joined(&[(d.dst_ip, 32), (d.msg_len, 32), (d.tx_msg_id, 32)]);
        let contexts = [(d.dst_context.into(), 16), (d.src_context.into(), 16)];
        let rest = [(d.credit, 32), (d.payload, 16), (d.rank.into(), 8), (d.flags.into(), 8)];
        Operands([p, joined(&[&contexts[..], &rest].concat())])
    }
}

#[derive(Clone, Copy, Debug)]
enum Binary {
    Plus,
    Minus,
    Times,
    SaturatedPlus,
    SaturatedMinus,
    And,
    Or,
    Xor,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Bits of the number 0 or 1, from a position on.
    Operand(usize, usize),
    Constant,
    Not(Box<Expression>),
    Negate(Box<Expression>),
    Binary(Binary, Box<[Expression; 2]>),
    /// Division by a power of two, and its remainder.
    Divide(Box<Expression>, u32),
    Remainder(Box<Expression>, u32),
    Left(Box<[Expression; 2]>),
    Right(Box<[Expression; 2]>),
    Concatenate(Box<[Expression; 2]>),
    Slice(Box<Expression>, usize),
    /// A cast to another width, or to the other signedness.
    Cast(Box<Expression>),
    /// A cast of a condition to `bit<1>`.
    Condition(Box<Condition>),
    Choose(Box<Condition>, Box<[Expression; 2]>),
}

#[derive(Clone, Debug)]
enum Condition {
    /// An operator and whether it holds for (less, equal, greater).
    Compare(&'static str, [bool; 3], Box<[Expression; 2]>),
    Not(Box<Condition>),
    And(Box<[Condition; 2]>),
    Or(Box<[Condition; 2]>),
}

/// An expression with its type.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    width: usize,
    signed: bool,
    kind: Kind,
    /// The value of a constant.
    constant: u128,
}

impl Condition {
    fn holds(&self, operands: &Operands) -> bool {
        match self {
            Condition::Compare(_, holds, both) => {
                let [a, b] = both.each_ref().map(|one| one.value(operands));
                match a.compare(&b, both[0].signed) {
                    Ordering::Less => holds[0],
                    Ordering::Equal => holds[1],
                    Ordering::Greater => holds[2],
                }
            }
            Condition::Not(one) => !one.holds(operands),
            Condition::And(both) => both[0].holds(operands) && both[1].holds(operands),
            Condition::Or(both) => both[0].holds(operands) || both[1].holds(operands),
        }
    }

    fn text(&self) -> String {
        match self {
            Condition::Compare(symbol, _, both) => format!("({} {symbol} {})", both[0].text(), both[1].text()),
            Condition::Not(one) => format!("(!{})", one.text()),
            Condition::And(both) => format!("({} && {})", both[0].text(), both[1].text()),
            Condition::Or(both) => format!("({} || {})", both[0].text(), both[1].text()),
        }
    }
}

impl Expression {
    pub(super) fn value(&self, operands: &Operands) -> Bits {
        let of = |one: &Expression| one.value(operands);
        match &self.kind {
            Kind::Operand(number, low) => operands.0[*number].slice(*low, self.width),
            Kind::Constant => Bits::new(self.constant, self.width),
            Kind::Not(one) => of(one).not(),
            Kind::Negate(one) => of(one).negated(),
            Kind::Binary(op, both) => {
                let [a, b] = both.each_ref().map(of);
                match op {
                    Binary::Plus => a.plus(&b),
                    Binary::Minus => a.minus(&b),
                    Binary::Times => a.times(&b),
                    Binary::SaturatedPlus => a.saturated(&b, false, self.signed),
                    Binary::SaturatedMinus => a.saturated(&b, true, self.signed),
                    Binary::And => a.zip(&b, |a, b| a && b),
                    Binary::Or => a.zip(&b, |a, b| a || b),
                    Binary::Xor => a.zip(&b, |a, b| a != b),
                }
            }
            Kind::Divide(one, log) => of(one).shifted_right(*log as usize, false),
            Kind::Remainder(one, log) => of(one).resized(*log as usize, false).resized(self.width, false),
            Kind::Left(both) => of(&both[0]).shifted_left(of(&both[1]).count()),
            Kind::Right(both) => of(&both[0]).shifted_right(of(&both[1]).count(), self.signed),
            Kind::Concatenate(both) => of(&both[0]).above(&of(&both[1])),
            Kind::Slice(one, low) => of(one).slice(*low, self.width),
            Kind::Cast(one) => of(one).resized(self.width, one.signed),
            Kind::Condition(one) => Bits(vec![one.holds(operands)]),
            Kind::Choose(condition, both) => of(&both[usize::from(!condition.holds(operands))]),
        }
    }

    fn text(&self) -> String {
        let width = self.width;
        let name = if self.signed { "int" } else { "bit" };
        match &self.kind {
            Kind::Operand(number, low) => {
                let slice = format!("{}[{}:{low}]", ["p", "q"][*number], low + width - 1);
                if self.signed { format!("((int<{width}>){slice})") } else { slice }
            }
            Kind::Constant if self.signed => format!("((int<{width}>){width}w{})", self.constant),
            Kind::Constant => format!("{width}w{}", self.constant),
            Kind::Not(one) => format!("(~{})", one.text()),
            Kind::Negate(one) => format!("(-{})", one.text()),
            Kind::Binary(op, both) => {
                let symbol = match op {
                    Binary::Plus => "+",
                    Binary::Minus => "-",
                    Binary::Times => "*",
                    Binary::SaturatedPlus => "|+|",
                    Binary::SaturatedMinus => "|-|",
                    Binary::And => "&",
                    Binary::Or => "|",
                    Binary::Xor => "^",
                };
                format!("({} {symbol} {})", both[0].text(), both[1].text())
            }
            Kind::Divide(one, log) => format!("({} / {})", one.text(), 1u64 << log),
            Kind::Remainder(one, log) => format!("({} % {})", one.text(), 1u64 << log),
            Kind::Left(both) => format!("({} << {})", both[0].text(), both[1].text()),
            Kind::Right(both) => format!("({} >> {})", both[0].text(), both[1].text()),
            Kind::Concatenate(both) => format!("({} ++ {})", both[0].text(), both[1].text()),
            Kind::Slice(one, low) => format!("({})[{}:{low}]", one.text(), low + width - 1),
            Kind::Cast(one) => format!("(({name}<{width}>){})", one.text()),
            Kind::Condition(one) => format!("((bit<1>){})", one.text()),
            Kind::Choose(condition, both) => {
                format!("({} ? {} : {})", condition.text(), both[0].text(), both[1].text())
            }
        }
    }
}

/// Random expressions.
pub(super) struct Generator {
    pub(super) results: Vec<Expression>,
}

/// A program whose header has the values of `results`, each with its width.
pub(super) fn program_text(declarations: &[&str], results: &[(usize, String)]) -> String {
    let mut fields = String::new();
    let mut assignments = String::new();
    for (number, (width, text)) in results.iter().enumerate() {
        let padding = width.next_multiple_of(8) - width;
        if padding > 0 {
            let _ = writeln!(fields, "    bit<{padding}> z{number};");
            let _ = writeln!(assignments, "        hdr.h.z{number} = 0;");
        }
        let _ = writeln!(fields, "    bit<{width}> r{number};");
        let _ = writeln!(assignments, "        hdr.h.r{number} = {text};");
    }
    format!(
        "#include <core.p4>
#include <nanotransport.p4>
header h_t {{
{fields}}}
struct headers_t {{ h_t h; }}
struct metadata_t {{ }}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {{
    state start {{ transition accept; }}
}}
control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {{
    apply {{ }}
}}
control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {{
    apply {{
{declarations}        hdr.h.setValid();
{assignments}    }}
}}
control D(packet_out packet, in headers_t hdr) {{
    apply {{ packet.emit(hdr.h); }}
}}
NanoTransport(P(), I(), E(), D()) main;
",
        declarations = declarations.concat()
    )
}

impl Generator {
    pub(super) fn program(random: &mut Random, count: usize) -> Generator {
        let one = |random: &mut Random| {
            let width = random.of(&WIDTHS);
            let signed = random.below(2) == 0;
            let result = expression(random, width, signed, 3);
            // A field of a header has no sign.
            let cast = Kind::Cast(result.into());
            Expression { width, signed: false, kind: cast, constant: 0 }
        };
        Generator { results: (0..count).map(|_| one(random)).collect() }
    }

    pub(super) fn text(&self) -> String {
        let results: Vec<_> = self.results.iter().map(|result| (result.width, result.text())).collect();
        program_text(&[NUMBERS], &results)
    }

    /// The first expression whose value differs.
    pub(super) fn first_difference(&self, found: &[u8], expected: &[u8]) -> String {
        let mut at = 0;
        for (number, result) in self.results.iter().enumerate() {
            let end = at + result.width.div_ceil(8);
            let (found, expected) = (found.get(at..end), &expected[at..end]);
            if found != Some(expected) {
                return format!("r{number} is {found:x?}, the evaluator has {expected:x?}: {}", result.text());
            }
            at = end;
        }
        format!("{} bytes instead of {at}", found.len())
    }
}

fn both(random: &mut Random, width: usize, signed: bool, depth: u32) -> Box<[Expression; 2]> {
    let first = expression(random, width, signed, depth);
    Box::new([first, expression(random, width, signed, depth)])
}

fn leaf(random: &mut Random, width: usize, signed: bool) -> Expression {
    let ones = u128::MAX >> (128 - width);
    let constant = match random.below(6) {
        0 => ones,
        1 => 1 << (width - 1),
        2 => u128::from(random.below(4)) & ones,
        _ => (0..4).fold(0, |all, _| all << 32 | u128::from(random.next())) & ones,
    };
    let low = random.below((96 - width) as u32 + 1) as usize;
    let kind = if random.below(4) == 0 { Kind::Constant } else { Kind::Operand(random.below(2) as usize, low) };
    Expression { width, signed, kind, constant }
}

/// A random expression of type `bit<width>` or `int<width>`.
fn expression(random: &mut Random, width: usize, signed: bool, depth: u32) -> Expression {
    if depth == 0 {
        return leaf(random, width, signed);
    }
    let below = depth - 1;
    let kind = match random.below(14) {
        0 => Kind::Not(expression(random, width, signed, below).into()),
        1 => Kind::Negate(expression(random, width, signed, below).into()),
        2 if !signed => {
            let log = random.below(width.min(32) as u32);
            let one = expression(random, width, signed, below).into();
            if random.below(2) == 0 { Kind::Divide(one, log) } else { Kind::Remainder(one, log) }
        }
        3 | 4 => {
            let value = expression(random, width, signed, below);
            let bits = random.of(&COUNTS);
            let mut count = leaf(random, bits, false);
            // Often less than the width.
            if bits > 4 && random.below(2) == 0 {
                let mask = Expression { width: bits, signed: false, kind: Kind::Constant, constant: 15 };
                let masked = Kind::Binary(Binary::And, Box::new([count, mask]));
                count = Expression { width: bits, signed: false, kind: masked, constant: 0 };
            }
            let pair = Box::new([value, count]);
            if random.below(3) == 0 { Kind::Left(pair) } else { Kind::Right(pair) }
        }
        5 if width > 1 => {
            let upper = 1 + random.below(width as u32 - 1) as usize;
            let first = expression(random, upper, signed, below);
            Kind::Concatenate(Box::new([first, expression(random, width - upper, false, below)]))
        }
        6 if !signed && width < 96 => {
            let of = width + random.below((96 - width) as u32) as usize;
            let low = random.below((of - width) as u32 + 1) as usize;
            Kind::Slice(expression(random, of, false, below).into(), low)
        }
        7 => {
            // To another width with the same sign, or to the other sign with the same width.
            let other = random.of(&WIDTHS);
            let same = random.below(3) == 0;
            let one =
                if same { expression(random, width, !signed, below) } else { expression(random, other, signed, below) };
            Kind::Cast(one.into())
        }
        8 if !signed && width == 1 => Kind::Condition(condition(random, below).into()),
        8 | 9 => Kind::Choose(condition(random, below).into(), both(random, width, signed, below)),
        _ => {
            use Binary::{And, Minus, Or, Plus, SaturatedMinus, SaturatedPlus, Times, Xor};
            // Saturation has more cases than the others.
            let all = [Plus, Minus, Times, SaturatedPlus, SaturatedMinus, SaturatedPlus, SaturatedMinus, And, Or, Xor];
            Kind::Binary(random.of(&all), both(random, width, signed, below))
        }
    };
    Expression { width, signed, kind, constant: 0 }
}

fn condition(random: &mut Random, depth: u32) -> Condition {
    let pair = |random: &mut Random| {
        let first = condition(random, depth.saturating_sub(1));
        Box::new([first, condition(random, depth.saturating_sub(1))])
    };
    match random.below(8) {
        0 if depth > 0 => Condition::Not(condition(random, depth - 1).into()),
        1 if depth > 0 => Condition::And(pair(random)),
        2 if depth > 0 => Condition::Or(pair(random)),
        _ => {
            let comparisons = [
                ("==", [false, true, false]),
                ("!=", [true, false, true]),
                ("<", [true, false, false]),
                ("<=", [true, true, false]),
                (">", [false, false, true]),
                (">=", [false, true, true]),
            ];
            let (symbol, holds) = random.of(&comparisons);
            let width = random.of(&WIDTHS);
            let signed = random.below(2) == 0;
            Condition::Compare(symbol, holds, both(random, width, signed, depth.saturating_sub(1)))
        }
    }
}
