//! Decides which parts may be replayed after a queue pair has failed.
//!
//! When both ends of a reliable connection are dead and all their completions have been polled, the requester knows for
//! each part (a request of the NIC) whether its completion arrived. For the other parts it knows two facts: RC executes
//! requests in order, and the peer's layer has counted the messages that completed receives. So if the peer has
//! received message number n, it has executed every part up to the part that carried message n. And if the peer has not
//! received message m, it has executed neither the part that carries message m nor any part after it.
//!
//! | part | executed | not executed | unknown |
//! |---|---|---|---|
//! | Write | done | replay | replay: it writes the same bytes, and the peer has no message about them yet |
//! | Read | replay: its data is lost, and a read changes nothing | replay | replay |
//! | Send, Write with Immediate | done | replay | cannot be: the count decides |
//! | atomic | undecided: its result is lost | replay | undecided: a replay could execute it twice |
//!
//! Over UC the peer's layer counts every part (`counted`), so no outcome is unknown, and these rules are not needed.

/// The operation of a part, as far as replaying is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartKind {
    /// An RDMA Write.
    Write,
    /// An RDMA Read.
    Read,
    /// An operation that consumes a receive of the peer, with its number in the channel, from 1.
    Message(u64),
    /// An atomic operation.
    Atomic,
}

/// What happens to a part whose completion did not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The peer has executed it, and it returns no data: it completes with success.
    Done,
    /// It is posted to the other queue pair.
    Replay,
    /// The part may have been executed, so it must not be replayed. Whether it was executed is unknown, or its result
    /// is lost.
    Undecided,
}

/// The verdicts on the parts whose completions did not arrive, in order of posting. `received` is the number of the
/// last message that the peer has received; both ends of the queue pair are dead.
///
/// ```
/// use rnic_host::rogue::{PartKind, Verdict, verdicts};
///
/// use PartKind::{Atomic, Message, Read, Write};
/// let parts = [Write, Message(5), Write, Read, Message(6), Atomic];
/// // The peer has received message 5. So the first Write was executed too. The other Write may have been executed.
/// // Message 6 was not received, so the atomic after it was not executed.
/// use Verdict::{Done, Replay};
/// assert_eq!(verdicts(&parts, 5), [Done, Done, Replay, Replay, Replay, Replay]);
/// ```
pub fn verdicts(parts: &[PartKind], received: u64) -> Vec<Verdict> {
    let is_received = |part: &PartKind| matches!(part, PartKind::Message(number) if *number <= received);
    let is_missing = |part: &PartKind| matches!(part, PartKind::Message(number) if *number > received);
    // Parts before `executed` were executed, and parts from `untouched` on were not.
    let executed = parts.iter().rposition(is_received).map_or(0, |at| at + 1);
    let untouched = parts.iter().position(is_missing).unwrap_or(parts.len());
    let of = |(at, part): (usize, &PartKind)| match part {
        PartKind::Read => Verdict::Replay,
        PartKind::Write | PartKind::Message(_) if at < executed => Verdict::Done,
        PartKind::Write | PartKind::Message(_) => Verdict::Replay,
        PartKind::Atomic if at >= untouched => Verdict::Replay,
        PartKind::Atomic => Verdict::Undecided,
    };
    parts.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every sequence of five parts and every number of executed parts, no verdict contradicts the execution.
    #[test]
    fn no_verdict_is_wrong() {
        let mut checked = 0;
        for code in 0..4_u32.pow(5) {
            let mut messages = 0;
            let parts: Vec<PartKind> = (0..5)
                .map(|at| match code / 4_u32.pow(at) % 4 {
                    0 => PartKind::Write,
                    1 => PartKind::Read,
                    2 => PartKind::Atomic,
                    _ => {
                        messages += 1;
                        PartKind::Message(messages)
                    }
                })
                .collect();
            for executed in 0..=parts.len() {
                let is_message = |part: &&PartKind| matches!(part, PartKind::Message(_));
                let received = parts[..executed].iter().filter(is_message).count() as u64;
                for (at, verdict) in verdicts(&parts, received).into_iter().enumerate() {
                    let was_executed = at < executed;
                    match (parts[at], verdict) {
                        // Nothing completes that did not happen.
                        (_, Verdict::Done) => assert!(was_executed, "{parts:?} {executed} {at}"),
                        // Nothing is executed twice that must not be.
                        (PartKind::Message(_) | PartKind::Atomic, Verdict::Replay) => {
                            assert!(!was_executed, "{parts:?} {executed} {at}");
                        }
                        // A Write is not replayed once a later message told the peer's application about it.
                        (PartKind::Write, Verdict::Replay) => {
                            let told = parts[at.min(executed)..executed].iter().any(|part| is_message(&part));
                            assert!(!told, "{parts:?} {executed} {at}");
                        }
                        (kind, verdict) => {
                            assert!(kind != PartKind::Atomic || verdict == Verdict::Undecided);
                            assert!(kind == PartKind::Atomic || verdict != Verdict::Undecided, "only atomics");
                        }
                    }
                    checked += 1;
                }
            }
        }
        assert_eq!(checked, 1_024 * 6 * 5);
    }

    /// An atomic is undecided only if no message before it is missing.
    #[test]
    fn atomics_behind_a_missing_message_were_not_executed() {
        let parts = [PartKind::Atomic, PartKind::Message(1), PartKind::Atomic];
        assert_eq!(verdicts(&parts, 0), [Verdict::Undecided, Verdict::Replay, Verdict::Replay]);
        assert_eq!(verdicts(&parts, 1), [Verdict::Undecided, Verdict::Done, Verdict::Undecided]);
        assert_eq!(verdicts(&[], 1), []);
    }
}
