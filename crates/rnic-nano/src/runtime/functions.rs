//! The functions and extern objects that the NIC provides to P4 programs. The code generator resolves their names and
//! checks the signatures of calls here.

use super::{Binding, Function};
use crate::diagnostic::Diagnostic;
use crate::hir::{ExternCall, Instance};

/// The signature of a NIC function: the widths in bits of the scalar arguments and results of a call.
struct Signature {
    arguments: Vec<u32>,
    results: Vec<u32>,
}

impl Signature {
    fn new(arguments: &[u32], results: &[u32]) -> Signature {
        Signature { arguments: arguments.to_vec(), results: results.to_vec() }
    }
}

/// Resolves the extern objects that a program declares, such as register arrays, to the runtime objects of the NIC.
pub(crate) fn bind_instances(instances: &[Instance]) -> Result<Vec<Binding>, Vec<Diagnostic>> {
    let mut bindings = Vec::new();
    let mut errors = Vec::new();
    let mut if_else = 0;
    let mut pairs = 0;
    let mut dual = 0;
    let mut schedulers = 0;
    let next = |count: &mut u16| {
        *count += 1;
        *count - 1
    };
    for instance in instances {
        let size = instance.arguments.first().map_or(0, |size| u64::try_from(*size).unwrap_or(u64::MAX));
        match (instance.kind.as_str(), &instance.types[..]) {
            ("IfElseRaw", &[width @ 1..=64]) => {
                bindings.push(Binding::IfElse { index: next(&mut if_else), size, width })
            }
            ("Pairs", &[width @ 1..=64]) => {
                bindings.push(Binding::Pairs { index: next(&mut pairs), size, width });
            }
            ("DualPort", widths) if !widths.is_empty() => {
                bindings.push(Binding::Dual { index: next(&mut dual), size, widths: widths.to_vec() });
            }
            ("PriorityScheduler", _) => bindings.push(Binding::Scheduler { index: next(&mut schedulers) }),
            (kind @ ("IfElseRaw" | "Pairs"), _) => errors.push(
                Diagnostic::new(
                    instance.span,
                    if kind == "Pairs" {
                        "each register of a Pairs is a single number of at most 64 bits"
                    } else {
                        "an entry of an IfElseRaw is a single number of at most 64 bits"
                    },
                    "this entry is larger",
                )
                .with_help("use a DualPort for structs"),
            ),
            (kind, _) => {
                let message = format!("this NIC has no extern '{kind}'");
                let help = "it has IfElseRaw, Pairs, DualPort and PriorityScheduler";
                errors.push(Diagnostic::new(instance.span, message, "unknown extern").with_help(help));
            }
        }
    }
    if errors.is_empty() { Ok(bindings) } else { Err(errors) }
}

/// Resolves a call to a function of the NIC, and also returns the widths of the call's results in bits. If the NIC does
/// not support the call, the returned text says why.
pub(crate) fn bind(call: &ExternCall, instances: &[Binding], blocks: bool) -> Result<(Function, Vec<u32>), String> {
    let name = &call.function;
    let binding = call.instance.map(|id| &instances[id.0 as usize]);
    let (function, signature) =
        find(name, binding).ok_or_else(|| format!("this NIC has no extern function '{name}'"))?;
    if binding.is_none() && !blocks {
        return Err(format!("'{name}' can be called by the ingress control only"));
    }
    let arguments = call.arguments.iter().map(|argument| argument.width);
    if !arguments.eq(signature.arguments.iter().copied()) || call.results.len() != signature.results.len() {
        return Err(format!("the declaration of '{name}' differs from that in nanotransport.p4"));
    }
    Ok((function, signature.results))
}

fn find(name: &str, binding: Option<&Binding>) -> Option<(Function, Signature)> {
    Some(match (binding, name) {
        (None, "get_rx_msg_info") => {
            (Function::GetRxMsgInfo, Signature::new(&[32, 16, 32, 32, 32, 1], &[1, 16, 1, 1, 1, 32]))
        }
        (None, "delivered_event") => (Function::Delivered, Signature::new(&[32, 32, 32, 64], &[])),
        (None, "credit_to_btx_event") => (Function::CreditToBtx, Signature::new(&[32, 1, 32, 1, 32], &[])),
        (None, "credit_to_btx_bitmap_event") => {
            (Function::CreditToBtxBitmap, Signature::new(&[32, 32, 64, 1, 32], &[]))
        }
        (None, "ctrl_pkt_event") => (Function::CtrlPkt, Signature::new(&[32, 16, 16, 32, 32, 32, 32, 8, 8, 8], &[])),
        (Some(Binding::IfElse { index, width, .. }), "execute") => {
            (Function::IfElse(*index), Signature::new(&[32, 1, 2, *width, 2, *width], &[*width]))
        }
        (Some(Binding::IfElse { index, width, .. }), "compare") => {
            (Function::Compare(*index), Signature::new(&[32, 3, *width, 2, *width, 2, *width], &[*width]))
        }
        (Some(Binding::Pairs { index, width, .. }), "execute") => {
            let operations = [2, *width].repeat(4);
            let arguments = [&[32, 2, 3, *width], &operations[..]].concat();
            (Function::Pair(*index), Signature::new(&arguments, &[*width, *width]))
        }
        (Some(Binding::Dual { index, widths, .. }), "read") => (Function::Read(*index), Signature::new(&[32], widths)),
        (Some(Binding::Dual { index, widths, .. }), "write") => {
            let arguments = [&[32], &widths[..]].concat();
            (Function::Write(*index), Signature::new(&arguments, &[]))
        }
        (Some(Binding::Scheduler { index }), "schedule") => {
            (Function::Schedule(*index), Signature::new(&[16, 1, 32, 32, 32, 8], &[1, 16, 8, 32]))
        }
        _ => return None,
    })
}
