//! Responses to unmatched messages: messages that match no connection and no listener of the host. Each unmatched
//! message causes at most one response. The response is as long as the message, and the host stores no state for it.

use crate::connection::Probe;
use crate::message::{About, Message, Parsed, Reject, ServiceReply, private, reason, service_status};

/// The response to a message that matches no connection and no listener; `None` if the message needs no response.
pub fn response(unmatched: &Parsed) -> Option<Parsed> {
    let message = match &unmatched.message {
        Message::Request(request) => Message::Reject(rejection(request.local_id, reason::INVALID_SERVICE)),
        Message::ServiceRequest { request_id, service, .. } => Message::ServiceReply(ServiceReply {
            request_id: *request_id,
            status: service_status::UNSUPPORTED,
            qpn: 0,
            service: *service,
            qkey: 0,
            private: [0; private::SERVICE_REPLY],
        }),
        // The connection has already ended at this host.
        Message::Disconnect { local_id, remote_id, .. } => {
            Message::Disconnected { local_id: *remote_id, remote_id: *local_id, private: [0; private::READY] }
        }
        // A probe: the peer asks whether the connection still exists.
        Message::Mra { local_id, remote_id, about: About::Other, service_timeout: Probe::REQUEST } => {
            Message::Reject(Reject {
                local_id: *remote_id,
                about: About::Other,
                ..rejection(*local_id, reason::INVALID_ID)
            })
        }
        _ => return None,
    };
    Some(Parsed { transaction: unmatched.transaction, message })
}

/// Whether a message is a probe, by which a peer asks whether a connection still exists.
pub fn is_probe(message: &Message) -> bool {
    matches!(message, Message::Mra { about: About::Other, service_timeout: Probe::REQUEST, .. })
}

/// Returns a REJ for the REQ with the communication ID `request`, for which this host keeps no state.
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
