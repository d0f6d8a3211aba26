//! The states of a queue pair: which attributes each change of state needs and admits (InfiniBand volume 1, section
//! 11.2.5.2).

use crate::abi::*;
use libc::c_int;
use rnic_verbs::State;

const ANY_ALTERNATE: c_int = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

/// The attributes that a change of state needs and admits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Masks {
    pub(crate) required: c_int,
    pub(crate) optional: c_int,
}

/// The attributes that a queue pair of the type `kind` needs, and admits, for a change from state `from` to state `to`;
/// `None` if a queue pair cannot change so.
pub(crate) fn masks(kind: c_int, from: c_int, to: c_int) -> Option<Masks> {
    let of = |rc, uc, ud| match kind {
        IBV_QPT_RC => rc,
        IBV_QPT_UC => uc,
        _ => ud,
    };
    // The attributes that a connected queue pair, and a UD queue pair, may change while it is running.
    let running = {
        let connected = IBV_QP_ACCESS_FLAGS | ANY_ALTERNATE;
        of(connected | IBV_QP_MIN_RNR_TIMER, connected, IBV_QP_QKEY) | IBV_QP_CUR_STATE
    };
    let (required, optional) = match (from, to) {
        (_, IBV_QPS_RESET | IBV_QPS_ERR) => (0, 0),
        (IBV_QPS_RESET, IBV_QPS_INIT) => {
            let rights = IBV_QP_ACCESS_FLAGS;
            (IBV_QP_PKEY_INDEX | IBV_QP_PORT | of(rights, rights, IBV_QP_QKEY), 0)
        }
        (IBV_QPS_INIT, IBV_QPS_INIT) => {
            let rights = IBV_QP_ACCESS_FLAGS;
            (0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | of(rights, rights, IBV_QP_QKEY))
        }
        (IBV_QPS_INIT, IBV_QPS_RTR) => {
            let path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
            let connected = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
            let rc = path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
            (of(rc, path, 0), of(connected, connected, IBV_QP_PKEY_INDEX | IBV_QP_QKEY))
        }
        (IBV_QPS_RTR, IBV_QPS_RTS) => {
            let rc = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
            (IBV_QP_SQ_PSN | of(rc, 0, 0), running)
        }
        (IBV_QPS_RTS, IBV_QPS_RTS) | (IBV_QPS_SQD, IBV_QPS_RTS) => (0, running),
        (IBV_QPS_SQE, IBV_QPS_RTS) if kind != IBV_QPT_RC => {
            (0, IBV_QP_CUR_STATE | of(0, IBV_QP_ACCESS_FLAGS, IBV_QP_QKEY))
        }
        (IBV_QPS_RTS, IBV_QPS_SQD) => (0, IBV_QP_EN_SQD_ASYNC_NOTIFY),
        (IBV_QPS_SQD, IBV_QPS_SQD) => {
            let uc = IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | ANY_ALTERNATE;
            let rc = uc
                | IBV_QP_PORT
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_MAX_QP_RD_ATOMIC
                | IBV_QP_MAX_DEST_RD_ATOMIC
                | IBV_QP_MIN_RNR_TIMER;
            (0, of(rc, uc, IBV_QP_PKEY_INDEX | IBV_QP_QKEY))
        }
        _ => return None,
    };
    Some(Masks { required, optional })
}

/// Checks the attributes of a change of state.
///
/// # Errors
/// A sentence that names the attributes.
pub(crate) fn check(kind: c_int, from: c_int, to: c_int, mask: c_int) -> Result<(), String> {
    let (name, other) = (state_name(from), state_name(to));
    let Some(masks) = masks(kind, from, to) else {
        return Err(format!("a queue pair of this type cannot go from {name} to {other}"));
    };
    let missing = masks.required & !mask;
    if missing != 0 {
        return Err(format!("from {name} to {other} it also needs {}", attributes(missing)));
    }
    let excess = mask & !(masks.required | masks.optional | IBV_QP_STATE);
    if excess != 0 {
        return Err(format!("from {name} to {other} it does not admit {}", attributes(excess)));
    }
    Ok(())
}

fn attributes(mask: c_int) -> String {
    const NAMES: [&str; 21] = [
        "STATE",
        "CUR_STATE",
        "EN_SQD_ASYNC_NOTIFY",
        "ACCESS_FLAGS",
        "PKEY_INDEX",
        "PORT",
        "QKEY",
        "AV",
        "PATH_MTU",
        "TIMEOUT",
        "RETRY_CNT",
        "RNR_RETRY",
        "RQ_PSN",
        "MAX_QP_RD_ATOMIC",
        "ALT_PATH",
        "MIN_RNR_TIMER",
        "SQ_PSN",
        "MAX_DEST_RD_ATOMIC",
        "PATH_MIG_STATE",
        "CAP",
        "DEST_QPN",
    ];
    let named = NAMES.iter().enumerate().filter(|(bit, _)| mask & 1 << bit != 0);
    let mut names: Vec<String> = named.map(|(_, name)| format!("IBV_QP_{name}")).collect();
    let others = mask >> NAMES.len() << NAMES.len();
    if others != 0 {
        names.push(format!("{others:#x}"));
    }
    names.join(", ")
}

fn state_name(state: c_int) -> &'static str {
    const NAMES: [&str; 7] = ["RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"];
    usize::try_from(state).ok().and_then(|state| NAMES.get(state)).copied().unwrap_or("an unknown state")
}

/// The number of a state in C.
pub(crate) fn number(state: State) -> c_int {
    match state {
        State::Reset => IBV_QPS_RESET,
        State::Init => IBV_QPS_INIT,
        State::ReadyToReceive => IBV_QPS_RTR,
        State::ReadyToSend => IBV_QPS_RTS,
        State::SendQueueDrain => IBV_QPS_SQD,
        State::SendQueueError => IBV_QPS_SQE,
        State::Error => IBV_QPS_ERR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of tables 91 to 98 of the specification.
    #[test]
    fn changes_need_and_admit_attributes() {
        let usual = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
        for kind in [IBV_QPT_RC, IBV_QPT_UC] {
            assert_eq!(check(kind, IBV_QPS_RESET, IBV_QPS_INIT, usual | IBV_QP_ACCESS_FLAGS), Ok(()));
            assert!(check(kind, IBV_QPS_RESET, IBV_QPS_INIT, usual).unwrap_err().contains("IBV_QP_ACCESS_FLAGS"));
            assert!(check(kind, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE).unwrap_err().contains("IBV_QP_AV"));
        }
        assert_eq!(check(IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, usual | IBV_QP_QKEY), Ok(()));
        assert_eq!(check(IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE), Ok(()));
        assert_eq!(check(IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN), Ok(()));
        let rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        assert_eq!(check(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, rtr), Ok(()));
        let error = check(IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, rtr).unwrap_err();
        assert!(error.contains("IBV_QP_MAX_DEST_RD_ATOMIC") && error.contains("IBV_QP_MIN_RNR_TIMER"), "{error}");
        let error = check(IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, rtr | IBV_QP_TIMEOUT | 1 << 25).unwrap_err();
        assert!(error.contains("does not admit IBV_QP_TIMEOUT, 0x2000000"), "{error}");
        for (from, to) in [(IBV_QPS_RESET, IBV_QPS_RTR), (IBV_QPS_INIT, IBV_QPS_RTS), (IBV_QPS_ERR, IBV_QPS_RTS)] {
            assert!(masks(IBV_QPT_RC, from, to).is_none());
        }
        assert!(
            masks(IBV_QPT_RC, IBV_QPS_SQE, IBV_QPS_RTS).is_none()
                && masks(IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS).is_some()
        );
        for from in IBV_QPS_RESET..=IBV_QPS_ERR {
            assert_eq!(check(IBV_QPT_RC, from, IBV_QPS_RESET, IBV_QP_STATE), Ok(()));
            assert_eq!(check(IBV_QPT_RC, from, IBV_QPS_ERR, IBV_QP_STATE), Ok(()));
        }
    }
}
