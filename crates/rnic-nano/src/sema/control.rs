//! Actions and controls: checked where they are declared, put in place where they are called.

use super::place::Place;
use super::scope::Symbol;
use super::typed::{Typed, Value};
use super::types::Type;
use super::{Analyser, Context};
use crate::ast::{self, Argument, Direction, Local, Parameter};
use crate::diagnostic::Diagnostic;
use crate::hir::{SlotId, Stmt};
use crate::source::Span;

/// An action in [`Analyser::actions`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ActionId(pub(super) usize);
/// A control in [`Analyser::controls`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ControlId(pub(super) usize);
/// A control within a control, in [`Analyser::applied`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InstanceNumber(pub(super) usize);

/// An action.
pub(super) struct ActionInfo<'a> {
    pub(super) ast: &'a ast::Action,
    /// Types of its parameters.
    pub(super) types: Vec<Type>,
    /// What its body sees.
    scope: usize,
    seen: u32,
    state: State,
}

/// A control of the top level.
pub(super) struct ControlInfo<'a> {
    pub(super) ast: &'a ast::Control,
    seen: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It is being checked: a call of it is a call of itself.
    Open,
    /// It has an error.
    Broken,
    Whole,
}

/// A control with its variables and tables.
pub(super) struct ControlInstance<'a> {
    ast: &'a ast::Control,
    /// What its body sees.
    scope: usize,
    /// Its parameters' variables; none for objects.
    parameters: Vec<Place>,
    /// First values of its variables.
    first: Vec<Stmt>,
}

/// An action or control that is being put in place.
#[derive(Default)]
pub(super) struct Frame {
    /// It has a `return`.
    returns: bool,
    /// What is copied out at its end: where to, and from where.
    copies: Vec<(Place, Place)>,
}

impl<'a> Analyser<'a> {
    /// Takes note of an action, and checks it.
    pub(super) fn declare_action(&mut self, action: &'a ast::Action) {
        let id = ActionId(self.actions.len());
        self.declare(&action.name, Symbol::Action(id));
        let before = self.errors.len();
        let types = action.parameters.iter().map(|parameter| self.stored_type(&parameter.ty)).collect();
        let (scope, seen) = (self.scope, self.declarations);
        self.actions.push(ActionInfo { ast: action, types, scope, seen, state: State::Open });
        if self.checking {
            self.check_order(&action.parameters);
            self.trial(|this| {
                let places = this.action_parameters(id, action.name.span);
                this.action_body(id, &places, Vec::new(), action.name.span);
            });
        }
        let broken = self.errors.len() > before;
        self.actions[id.0].state = if broken { State::Broken } else { State::Whole };
    }

    /// Parameters that the control plane gives stand last.
    fn check_order(&mut self, parameters: &'a [Parameter]) {
        let is_given = |parameter: &&Parameter| parameter.direction == Direction::None;
        let mut rest = parameters.iter().skip_while(|parameter| !is_given(parameter));
        let (Some(first), Some(misplaced)) = (rest.next(), rest.find(|parameter| !is_given(parameter))) else { return };
        let message = format!("the parameter `{}` has a direction, but comes after one without", misplaced.name.name);
        let what = Diagnostic::new(misplaced.name.span, message, "must come before");
        self.report(what.with_related(first.name.span, "given by a table's entries: must be last"));
    }

    /// Does something whose code and slots are thrown away.
    fn trial(&mut self, work: impl FnOnce(&mut Self)) {
        let (slots, headers) = (self.pipe.code.slots.len(), self.pipe.code.headers.len());
        self.discarded(work);
        self.pipe.code.slots.truncate(slots);
        self.pipe.code.headers.truncate(headers);
        self.pipe.temporary.truncate(slots);
        self.pipe.header_at.split_off(&SlotId(slots as u32));
    }

    /// Variables for the parameters of an action.
    pub(super) fn action_parameters(&mut self, id: ActionId, span: Span) -> Vec<Place> {
        let ast = self.actions[id.0].ast;
        let parameters = ast.parameters.iter().enumerate();
        let places = parameters.map(|(number, parameter)| {
            let ty = self.actions[id.0].types[number];
            self.allocate(ty, &format!("{}.{}", ast.name.name, parameter.name.name), true, span)
        });
        places.collect()
    }

    /// Puts the body of an action in place; `copies` are made at its end.
    pub(super) fn action_body(&mut self, id: ActionId, places: &[Place], copies: Vec<(Place, Place)>, span: Span) {
        let ActionInfo { ast, scope, seen, .. } = self.actions[id.0];
        let before = self.open_scope(scope, seen);
        for (parameter, place) in ast.parameters.iter().zip(places) {
            self.declare_parameter(parameter, *place);
        }
        let context = std::mem::replace(&mut self.context, Context::Action);
        self.framed(&ast.body, copies, span);
        self.context = context;
        self.close_scope(before);
    }

    fn declare_parameter(&mut self, parameter: &'a Parameter, place: Place) {
        let fixed = matches!(parameter.direction, Direction::In | Direction::None).then_some(parameter.name.span);
        self.declare(&parameter.name, Symbol::Variable(Place { fixed, ..place }));
    }

    /// A body that `return` ends, and what is copied out then.
    fn framed(&mut self, body: &'a ast::Block, copies: Vec<(Place, Place)>, span: Span) {
        self.frames.push(Frame { returns: false, copies });
        let (code, ()) = self.collected(|this| this.block(body));
        let frame = self.frames.pop().unwrap_or_default();
        if frame.returns {
            self.emit(Stmt::Scope(code), span);
        } else {
            self.code.extend(code);
        }
        self.copy_out(&frame.copies, span);
    }

    fn copy_out(&mut self, copies: &[(Place, Place)], span: Span) {
        for (target, from) in copies {
            if let Value::Scalars(scalars) = self.read(*from, span).value {
                self.write(*target, scalars, span);
            }
        }
    }

    /// `return;`
    pub(super) fn leave(&mut self, span: Span) {
        match self.frames.last_mut() {
            Some(frame) if self.context != Context::Parser => {
                frame.returns = true;
                self.emit(Stmt::Leave(0), span);
            }
            _ => self.error(span, "a parser has no `return`", "not possible here"),
        }
    }

    /// `exit;`
    pub(super) fn exit(&mut self, span: Span) {
        if self.context == Context::Parser {
            return self.error(span, "a parser has no `exit`", "not possible here");
        }
        if self.inner_table {
            let instead = Some("set a variable in the action, and test it after `apply`");
            return self.unsupported(span, "`exit` in a table of a control that another control applies", instead);
        }
        let copies: Vec<_> = self.frames.iter().rev().flat_map(|frame| frame.copies.iter().copied()).collect();
        self.copy_out(&copies, span);
        self.emit(Stmt::Exit, span);
    }

    /// Calls an action.
    pub(super) fn call_action(&mut self, id: ActionId, arguments: &'a [Argument], span: Span) -> Typed {
        let ActionInfo { ast, state, .. } = self.actions[id.0];
        let name = &ast.name;
        if !matches!(self.context, Context::Control | Context::Action) {
            let message = format!("the action `{}` cannot be called here", name.name);
            self.error(span, message, "only in controls and actions");
            return Typed::error(span);
        }
        if state == State::Open {
            let what = Diagnostic::new(span, format!("the action `{}` calls itself", name.name), "not possible in P4");
            self.report(what.with_related(name.span, "declared here"));
        }
        if state != State::Whole {
            return Typed::error(span);
        }
        let parameters: Vec<&Parameter> = ast.parameters.iter().collect();
        let Some(bound) = self.bind(&name.name, &parameters, arguments, span) else { return Typed::error(span) };
        let places = self.action_parameters(id, span);
        let types = self.actions[id.0].types.clone();
        let Some(copies) = self.copy_in(&parameters, &types, &places, &bound) else { return Typed::error(span) };
        self.action_body(id, &places, copies, span);
        Typed { ty: Type::Void, value: Value::Nothing, span }
    }

    /// Copies arguments to the variables of parameters. Returns what to copy out in the end.
    pub(super) fn copy_in(
        &mut self, parameters: &[&'a Parameter], types: &[Type], places: &[Place], arguments: &[&'a Argument],
    ) -> Option<Vec<(Place, Place)>> {
        let (mut copies, mut whole) = (Vec::new(), true);
        for (number, parameter) in parameters.iter().enumerate() {
            let (argument, place, ty) = (arguments[number], places[number], types[number]);
            let value = match parameter.direction {
                Direction::In | Direction::None => self.argument(argument),
                Direction::Out | Direction::InOut => {
                    let target = self.argument_target(argument, parameter);
                    whole &= target.is_some() || argument.value.is_none();
                    if let Some(target) = target {
                        if !self.same_as_parameter(target.ty, ty, argument.span) {
                            whole = false;
                            continue;
                        }
                        copies.push((target, place));
                    }
                    if parameter.direction == Direction::Out && self.again {
                        self.clear(place, argument.span);
                    }
                    match target {
                        Some(target) if parameter.direction == Direction::InOut => self.read(target, argument.span),
                        _ => continue,
                    }
                }
            };
            match self.scalars(value, ty) {
                Some(scalars) if place.ty != Type::Error => self.write(place, scalars, argument.span),
                _ => whole = false,
            }
        }
        whole.then_some(copies)
    }

    fn same_as_parameter(&mut self, found: Type, expected: Type, span: Span) -> bool {
        if found != expected && found != Type::Error && expected != Type::Error {
            let message = format!("expected `{}`, found `{}`", self.types.display(expected), self.types.display(found));
            let what = Diagnostic::new(span, message, "what is written must have just this type");
            self.report(what.with_help("use a variable of that type, and copy it"));
        }
        found == expected
    }

    /// Takes note of a control, and checks it.
    pub(super) fn declare_control(&mut self, control: &'a ast::Control) {
        let id = ControlId(self.controls.len());
        self.declare(&control.name, Symbol::Control(id));
        self.controls.push(ControlInfo { ast: control, seen: self.declarations, state: State::Open });
        let before = self.errors.len();
        self.scratch(|this| {
            let parameters = this.fresh_parameters(&control.parameters, "");
            let instance = this.instantiate_control(id, parameters, &control.name.name, "");
            this.control_body(&instance, Vec::new(), control.name.span);
        });
        let broken = self.errors.len() > before;
        self.controls[id.0].state = if broken { State::Broken } else { State::Whole };
    }

    pub(super) fn is_whole(&self, id: ControlId) -> bool {
        self.controls[id.0].state == State::Whole
    }

    /// Variables, and objects, for parameters.
    pub(super) fn fresh_parameters(&mut self, parameters: &'a [Parameter], prefix: &str) -> Vec<Symbol<'a>> {
        let fresh = parameters.iter().map(|parameter| match self.type_of(&parameter.ty) {
            Type::Extern(number) => Symbol::Object(number),
            Type::Integer => {
                self.stored_type(&parameter.ty);
                Symbol::Broken
            }
            Type::Error => Symbol::Broken,
            ty => {
                let name = format!("{prefix}{}", parameter.name.name);
                Symbol::Variable(self.allocate(ty, &name, true, parameter.name.span))
            }
        });
        fresh.collect()
    }

    /// Declares parameters in the current scope.
    pub(super) fn declare_parameters(&mut self, parameters: &'a [Parameter], symbols: Vec<Symbol<'a>>) -> Vec<Place> {
        let mut places = Vec::new();
        for (parameter, symbol) in parameters.iter().zip(symbols) {
            match symbol {
                Symbol::Variable(place) => {
                    places.push(place);
                    self.declare_parameter(parameter, place);
                }
                other => {
                    places.push(Place::BROKEN);
                    self.declare(&parameter.name, other);
                }
            }
        }
        places
    }

    /// A control with variables, objects and tables of its own. `prefix` comes before the names of its tables.
    pub(super) fn instantiate_control(
        &mut self, id: ControlId, parameters: Vec<Symbol<'a>>, path: &str, prefix: &str,
    ) -> ControlInstance<'a> {
        let ControlInfo { ast, seen, .. } = self.controls[id.0];
        let before = self.open_scope(0, seen);
        let context = std::mem::replace(&mut self.context, Context::Control);
        let parameters = self.declare_parameters(&ast.parameters, parameters);
        let (first, ()) = self.collected(|this| {
            for local in &ast.locals {
                this.local(local, path, prefix);
            }
        });
        self.context = context;
        let scope = std::mem::replace(&mut self.scope, before);
        ControlInstance { ast, scope, parameters, first }
    }

    /// Something declared within a control or parser.
    pub(super) fn local(&mut self, local: &'a Local, path: &str, prefix: &str) {
        match local {
            Local::Const(constant) => self.local_constant(constant),
            Local::Variable(variable) => self.variable(variable),
            Local::Instance(instance) => self.local_instance(instance, path, prefix),
            Local::Action(action) => self.declare_action(action),
            Local::Table(table) => self.declare_table(table, prefix),
        }
    }

    /// What a control does, from its variables' first values on.
    pub(super) fn control_body(&mut self, instance: &ControlInstance<'a>, copies: Vec<(Place, Place)>, span: Span) {
        self.spend(instance.first.len() as u32, span);
        self.code.extend(instance.first.iter().cloned());
        let before = self.open_scope(instance.scope, u32::MAX);
        let context = std::mem::replace(&mut self.context, Context::Control);
        self.framed(&instance.ast.apply, copies, span);
        self.context = context;
        self.close_scope(before);
    }

    fn local_instance(&mut self, instance: &'a ast::Instance, path: &str, prefix: &str) {
        let path = format!("{path}.{}", instance.name.name);
        let symbol = match self.instance_kind(instance) {
            Some(Symbol::Control(id)) => {
                self.nested(instance.name.span, Symbol::Broken, |this| this.inner_control(id, instance, &path, prefix))
            }
            Some(Symbol::Broken) | None => Symbol::Broken,
            Some(_) => self.extern_object(instance, &path),
        };
        self.declare(&instance.name, symbol);
    }

    /// A control within a control.
    fn inner_control(&mut self, id: ControlId, instance: &'a ast::Instance, path: &str, prefix: &str) -> Symbol<'a> {
        let ControlInfo { ast, state, .. } = self.controls[id.0];
        if self.context != Context::Control {
            self.error(instance.name.span, "a parser cannot have a control", "not possible here");
            return Symbol::Broken;
        }
        if let Some(argument) = instance.arguments.first() {
            self.error(argument.span, format!("`{}` takes no arguments here", ast.name.name), "expected `()`");
        }
        if state == State::Open {
            let message = format!("the control `{}` has itself as a part", ast.name.name);
            self.error(instance.name.span, message, "not possible in P4");
        }
        if state != State::Whole {
            return Symbol::Broken;
        }
        // Far more work than a statement.
        if !self.spend(100, instance.name.span) {
            return Symbol::Broken;
        }
        let prefix = format!("{prefix}{}.", instance.name.name);
        let outer = (self.again, self.inner_table, self.checking);
        let copied_out = ast.parameters.iter().any(|p| matches!(p.direction, Direction::Out | Direction::InOut));
        (self.again, self.inner_table, self.checking) = (true, copied_out, false);
        let parameters = self.fresh_parameters(&ast.parameters, &prefix);
        let made = self.instantiate_control(id, parameters, path, &prefix);
        (self.again, self.inner_table, self.checking) = outer;
        self.applied.push(made);
        Symbol::Instance(InstanceNumber(self.applied.len() - 1))
    }

    /// `instance.apply(arguments)`
    pub(super) fn apply_control(&mut self, number: InstanceNumber, arguments: &'a [Argument], span: Span) -> Typed {
        if self.context != Context::Control {
            self.error(span, "a control can only be applied in the `apply` block of a control", "not possible here");
            return Typed::error(span);
        }
        let ast = self.applied[number.0].ast;
        let places = self.applied[number.0].parameters.clone();
        let types: Vec<Type> = places.iter().map(|place| place.ty).collect();
        let parameters: Vec<&Parameter> = ast.parameters.iter().collect();
        if let Some(object) = types.iter().position(|ty| *ty == Type::Error) {
            let name = &parameters[object].name;
            let what = format!("`apply` of a control with an object (`{}`) as a parameter", name.name);
            self.unsupported(span, &what, Some("use the object in the control that has it"));
            return Typed::error(span);
        }
        let Some(bound) = self.bind(&ast.name.name, &parameters, arguments, span) else { return Typed::error(span) };
        let again = std::mem::replace(&mut self.again, true);
        let copies = self.copy_in(&parameters, &types, &places, &bound);
        self.again = again;
        let Some(copies) = copies else { return Typed::error(span) };
        // Its parts are those made with it: only its body is lowered again.
        let instance = &self.applied[number.0];
        let (first, scope) = (instance.first.clone(), instance.scope);
        let instance = ControlInstance { ast, scope, parameters: Vec::new(), first };
        self.control_body(&instance, copies, span);
        Typed { ty: Type::Void, value: Value::Nothing, span }
    }

    /// The slots of parameters that a table's entries give.
    pub(super) fn slots_of(&self, place: Place) -> impl Iterator<Item = SlotId> + use<> {
        (place.slot..place.slot + self.types.size(place.ty)).map(SlotId)
    }
}
