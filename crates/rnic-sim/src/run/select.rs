//! Finds the code that is compiled for a transport, by the name of the transport.

use rnic_transport::registry::visit_transports;
use rnic_transport::settings::Settings;
use rnic_transport::transports::{
    FlowTransport, MessageFacts, MessageTransport, ProgramVisitor, ProtocolVisitor, TransportVisitor,
};

/// Calls `visitor` with the loss recovery that the transport `name` has with `settings`, and returns the result; `None`
/// if no transport of flows has this name.
pub(crate) fn select_recovery<V: ProtocolVisitor>(name: &str, settings: &Settings, visitor: V) -> Option<V::Output> {
    struct Choice<'a, V: ProtocolVisitor> {
        name: &'a str,
        settings: &'a Settings,
        /// `None` after the choice has been shown the transport.
        visitor: Option<V>,
        output: Option<V::Output>,
    }

    impl<V: ProtocolVisitor> TransportVisitor for Choice<'_, V> {
        fn flow_transport<F: FlowTransport>(&mut self) {
            if let Some(visitor) = self.visitor.take_if(|_| self.name == F::DECLARATION.name) {
                self.output = Some(F::select(self.settings, visitor));
            }
        }

        fn message_transport<M: MessageTransport>(&mut self) {}
    }

    let mut choice = Choice { name, settings, visitor: Some(visitor), output: None };
    visit_transports(&mut choice);
    choice.output
}

/// Calls `visitor` with the program that the transport `name` has with `settings` and `facts`, and returns the result;
/// `None` if no message transport has this name.
pub(crate) fn select_program<V: ProgramVisitor>(
    name: &str, settings: &Settings, facts: &MessageFacts, visitor: V,
) -> Option<V::Output> {
    struct Choice<'a, V: ProgramVisitor> {
        name: &'a str,
        settings: &'a Settings,
        facts: &'a MessageFacts,
        /// `None` after the choice has been shown the transport.
        visitor: Option<V>,
        output: Option<V::Output>,
    }

    impl<V: ProgramVisitor> TransportVisitor for Choice<'_, V> {
        fn flow_transport<F: FlowTransport>(&mut self) {}

        fn message_transport<M: MessageTransport>(&mut self) {
            if let Some(visitor) = self.visitor.take_if(|_| self.name == M::DECLARATION.name) {
                self.output = Some(M::select(self.settings, self.facts, visitor));
            }
        }
    }

    let mut choice = Choice { name, settings, facts, visitor: Some(visitor), output: None };
    visit_transports(&mut choice);
    choice.output
}
