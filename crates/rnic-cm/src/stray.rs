//! What a host answers to messages that belong to no connection and to nobody who listens. The answers need no state,
//! and each message has one answer of the same length at most.

use crate::connection::Probe;
use crate::message::{About, Message, Parsed, Reject, ServiceReply, private, reason, service_status};

/// The answer to a message that no process of the address wants; `None` if it gets none.
pub fn answer(stray: &Parsed) -> Option<Parsed> {
    let message = match &stray.message {
        Message::Request(request) => Message::Reject(rejection(request.local_id, reason::INVALID_SERVICE)),
        Message::ServiceRequest { request_id, service, .. } => Message::ServiceReply(ServiceReply {
            request_id: *request_id,
            status: service_status::UNSUPPORTED,
            qpn: 0,
            service: *service,
            qkey: 0,
            private: [0; private::SERVICE_REPLY],
        }),
        // The connection has ended here already, as its peer wants.
        Message::Disconnect { local_id, remote_id, .. } => {
            Message::Disconnected { local_id: *remote_id, remote_id: *local_id, private: [0; private::READY] }
        }
        // A peer asks whether a connection still exists.
        Message::Mra { local_id, remote_id, about: About::Other, service_timeout: Probe::ASK } => {
            Message::Reject(Reject {
                local_id: *remote_id,
                about: About::Other,
                ..rejection(*local_id, reason::INVALID_ID)
            })
        }
        _ => return None,
    };
    Some(Parsed { transaction: stray.transaction, message })
}

/// Whether a message asks whether a connection still exists.
pub fn is_probe(message: &Message) -> bool {
    matches!(message, Message::Mra { about: About::Other, service_timeout: Probe::ASK, .. })
}

/// A REJ of a REQ of which nothing is remembered.
pub(crate) fn rejection(request: u32, reason: u16) -> Reject {
    Reject {
        local_id: 0,
        remote_id: request,
        about: About::Request,
        reason,
        info_len: 0,
        info: [0; 72],
        private: [0; private::REJECT],
    }
}
