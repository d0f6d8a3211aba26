//! Part of the semantic analysis of P4: actions and controls. The compiler checks an action or control where it is
//! declared, and inlines it where it is called.

use super::lvalue::LValue;
use super::scope::Symbol;
use super::typed::{Typed, Value};
use super::types::Type;
use super::{Analyser, Context};
use crate::ast::{self, Argument, Direction, Local, Parameter};
use crate::diagnostic::Diagnostic;
use crate::hir::{SlotId, Stmt};
use crate::source::Span;

/// Identifies an action by its index in [`Analyser::actions`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ActionId(pub(super) usize);
/// Identifies a control by its index in [`Analyser::controls`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ControlId(pub(super) usize);
/// Identifies an instance of a control within another control, by its index in [`Analyser::applied`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ControlInstanceId(pub(super) usize);

/// An action that the program declares.
pub(super) struct ActionInfo<'a> {
    pub(super) ast: &'a ast::Action,
    /// If this is a function: the type of its result, which is `void` if it has none.
    pub(super) result: Option<Type>,
    /// The types of the action's parameters.
    pub(super) types: Vec<Type>,
    /// The scope in which the action is declared. The body of the action is translated in this scope.
    scope: usize,
    seen: u32,
    state: State,
}

/// A control that the program declares.
pub(super) struct ControlInfo<'a> {
    pub(super) ast: &'a ast::Control,
    seen: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The compiler is checking the body of the action or control. A call of it at this time is a recursive call, which
    /// is an error.
    Open,
    /// The declaration has an error, which has been reported.
    Broken,
    Whole,
}

/// An instance of a control. Each instance has its own variables and tables.
pub(super) struct ControlInstance<'a> {
    ast: &'a ast::Control,
    /// The scope in which the body of the control is translated.
    scope: usize,
    /// The variables that hold the control's parameters. A parameter of an extern type has no variable.
    parameters: Vec<LValue>,
    /// The statements that initialise the variables of the control instance.
    first: Vec<Stmt>,
}

/// The state of the analyser while it inlines an action or control.
#[derive(Default)]
pub(super) struct Frame {
    /// Number of `return` statements in the body of the action, function or control.
    returns: u32,
    /// In a function with a result: the variable of the result.
    result: Option<LValue>,
    /// The assignments that copy `out` and `inout` parameters to the caller's variables at the end of the body. Each
    /// has a destination and a source.
    copies: Vec<(LValue, LValue)>,
}

impl<'a> Analyser<'a> {
    /// Declares an action in the current scope, and checks its body.
    pub(super) fn declare_action(&mut self, action: &'a ast::Action, function: Option<&'a ast::Function>) {
        let id = ActionId(self.actions.len());
        self.declare(&action.name, if function.is_some() { Symbol::Inlined(id) } else { Symbol::Action(id) });
        let before = self.errors.len();
        let result = function.map(|function| function.result.as_ref().map_or(Type::Void, |ty| self.stored_type(ty)));
        let types = action.parameters.iter().map(|parameter| self.stored_type(&parameter.ty)).collect();
        let scope = self.scope;
        let seen = self.declarations;
        self.actions.push(ActionInfo { ast: action, result, types, scope, seen, state: State::Open });
        if self.checking {
            self.check_order(&action.parameters);
            self.trial(|this| {
                let lvalues = this.action_parameters(id, action.name.span);
                let result = this.result_variable(id, action.name.span);
                this.action_body(id, &lvalues, Vec::new(), result, action.name.span);
            });
        }
        let broken = self.errors.len() > before;
        self.actions[id.0].state = if broken { State::Broken } else { State::Whole };
    }

    /// Checks that an action's parameters without a direction come last. The control plane or a table entry gives their
    /// values.
    fn check_order(&mut self, parameters: &'a [Parameter]) {
        let is_given = |parameter: &&Parameter| parameter.direction == Direction::None;
        let mut rest = parameters.iter().skip_while(|parameter| !is_given(parameter));
        let (Some(first), Some(misplaced)) = (rest.next(), rest.find(|parameter| !is_given(parameter))) else { return };
        let message = format!(
            "the parameter `{}` has a direction, but follows a parameter without a direction",
            misplaced.name.name
        );
        let what = Diagnostic::new(misplaced.name.span, message, "must come before parameters without a direction");
        self.report(what.with_related(
            first.name.span,
            "parameters without a direction must come last: table entries give their values",
        ));
    }

    /// Runs a function, and then discards the code and the slots (scalar variables) that the function created. The
    /// analyser thus checks code without keeping its translation.
    fn trial(&mut self, work: impl FnOnce(&mut Self)) {
        let slots = self.pipe.code.slots.len();
        let headers = self.pipe.code.headers.len();
        self.discarded(work);
        self.pipe.code.slots.truncate(slots);
        self.pipe.code.headers.truncate(headers);
        self.pipe.temporary.truncate(slots);
        self.pipe.header_at.split_off(&SlotId(slots as u32));
    }

    /// Allocates variables for the parameters of an action, and returns them in the order of the parameters.
    pub(super) fn action_parameters(&mut self, id: ActionId, span: Span) -> Vec<LValue> {
        let ast = self.actions[id.0].ast;
        let parameters = ast.parameters.iter().enumerate();
        let lvalues = parameters.map(|(number, parameter)| {
            let ty = self.actions[id.0].types[number];
            self.allocate(ty, &format!("{}.{}", ast.name.name, parameter.name.name), true, span)
        });
        lvalues.collect()
    }

    /// Inlines the body of an action. After the body, the assignments in `copies` (destination, source) pass the values
    /// of `out` parameters to the caller.
    pub(super) fn action_body(
        &mut self, id: ActionId, lvalues: &[LValue], copies: Vec<(LValue, LValue)>, result: Option<LValue>, span: Span,
    ) {
        let ActionInfo { ast, result: ref function, scope, seen, .. } = self.actions[id.0];
        let context = if function.is_some() { Context::Function } else { Context::Action };
        let before = self.open_scope(scope, seen);
        for (parameter, lvalue) in ast.parameters.iter().zip(lvalues) {
            self.declare_parameter(parameter, *lvalue);
        }
        let context = std::mem::replace(&mut self.context, context);
        self.framed(&ast.body, copies, result, span);
        self.context = context;
        self.close_scope(before);
    }

    fn declare_parameter(&mut self, parameter: &'a Parameter, lvalue: LValue) {
        let fixed = matches!(parameter.direction, Direction::In | Direction::None).then_some(parameter.name.span);
        self.declare(&parameter.name, Symbol::Variable(LValue { fixed, ..lvalue }));
    }

    /// Translates the body of an action or control, which a `return` statement can leave. After the body, the
    /// assignments in `copies` pass `out` parameters to the caller's variables.
    fn framed(&mut self, body: &'a ast::Block, copies: Vec<(LValue, LValue)>, result: Option<LValue>, span: Span) {
        self.frames.push(Frame { returns: 0, result, copies });
        let (mut code, ()) = self.collected(|this| this.block(body));
        let mut frame = self.frames.pop().unwrap_or_default();
        if frame.result.is_some() && frame.returns == 0 && !self.stopped {
            self.error(span, "a function with a result has no `return`", "without a result");
        }
        // A body that only returns at its end needs no jump.
        if frame.returns == 1 && code.last() == Some(&Stmt::Leave(0)) {
            code.pop();
            frame.returns = 0;
        }
        if frame.returns > 0 {
            self.emit(Stmt::Scope(code), span);
        } else {
            self.code.extend(code);
        }
        self.copy_out(&frame.copies, span);
    }

    pub(super) fn copy_out(&mut self, copies: &[(LValue, LValue)], span: Span) {
        for (target, from) in copies {
            if let Value::Scalars(scalars) = self.read(*from, span).value {
                self.write(*target, scalars, span);
            }
        }
    }

    /// Translates `return;` and `return value;`: a jump to the end of the inlined body.
    pub(super) fn leave(&mut self, value: Option<&'a ast::Expr>, span: Span) {
        let (Some(frame), false) = (self.frames.last_mut(), self.context == Context::Parser) else {
            return self.error(span, "a parser has no `return`", "not allowed here");
        };
        frame.returns += 1;
        match (frame.result, value) {
            (Some(result), Some(value)) => {
                let value = self.expression(value);
                if let Some(scalars) = self.scalars(value, result.ty) {
                    self.write(result, scalars, span);
                }
            }
            (None, None) => {}
            (Some(_), None) => self.error(span, "`return` without the function's result", "expected a value"),
            (None, Some(value)) => {
                self.error(value.span, "`return` with a value, but there is no result", "only a function has a result");
            }
        }
        self.emit(Stmt::Leave(0), span);
    }

    /// Allocates the variable of a function's result, if it has one.
    fn result_variable(&mut self, id: ActionId, span: Span) -> Option<LValue> {
        let ty = self.actions[id.0].result.filter(|ty| *ty != Type::Void)?;
        let name = format!("{}.result", self.actions[id.0].ast.name.name);
        Some(self.allocate(ty, &name, true, span))
    }

    /// Translates a call of a function: inlines its body, and returns the value of its result.
    pub(super) fn call_function(&mut self, id: ActionId, arguments: &'a [Argument], span: Span) -> Typed {
        let ActionInfo { ast, state, .. } = self.actions[id.0];
        let name = &ast.name;
        if self.context == Context::Top {
            self.error(span, "the value of a constant cannot contain a call", "not a compile-time constant");
            return Typed::error(span);
        }
        if state == State::Open {
            let what =
                Diagnostic::new(span, format!("the function `{}` calls itself", name.name), "P4 has no recursion");
            self.report(what.with_related(name.span, "declared here"));
        }
        if state != State::Whole {
            return Typed::error(span);
        }
        let parameters: Vec<&Parameter> = ast.parameters.iter().collect();
        let Some(bound) = self.bind(&name.name, &parameters, arguments, span) else { return Typed::error(span) };
        let lvalues = self.action_parameters(id, span);
        let types = self.actions[id.0].types.clone();
        let Some(copies) = self.copy_in(&parameters, &types, &lvalues, &bound) else { return Typed::error(span) };
        let result = self.result_variable(id, span);
        if let (Some(result), true) = (result, self.again) {
            self.clear(result, span);
        }
        self.action_body(id, &lvalues, copies, result, span);
        match result {
            Some(result) => self.read(result, span),
            None => Typed { ty: Type::Void, value: Value::Nothing, span },
        }
    }

    /// Translates `exit;`: copies the `out` parameters of all enclosing bodies to their callers, and ends the control.
    pub(super) fn exit(&mut self, span: Span) {
        if matches!(self.context, Context::Parser | Context::Function) {
            let place = if self.context == Context::Parser { "a parser" } else { "a function" };
            return self.error(span, format!("{place} has no `exit`"), "not allowed here");
        }
        if self.inner_table {
            let instead = Some("set a variable in the action, and test the variable after `apply`");
            return self.unsupported(
                span,
                "`exit` in a table of an inner control that has `out` or `inout` parameters",
                instead,
            );
        }
        let copies: Vec<_> = self.frames.iter().rev().flat_map(|frame| frame.copies.iter().copied()).collect();
        self.copy_out(&copies, span);
        self.emit(Stmt::Exit, span);
    }

    /// Translates a call of an action: inlines the action's body.
    pub(super) fn call_action(&mut self, id: ActionId, arguments: &'a [Argument], span: Span) -> Typed {
        let ActionInfo { ast, state, .. } = self.actions[id.0];
        let name = &ast.name;
        if !matches!(self.context, Context::Control | Context::Action) {
            let message = format!("the action `{}` cannot be called here", name.name);
            self.error(span, message, "actions can be called in controls and actions only");
            return Typed::error(span);
        }
        if state == State::Open {
            let what = Diagnostic::new(span, format!("the action `{}` calls itself", name.name), "P4 has no recursion");
            self.report(what.with_related(name.span, "declared here"));
        }
        if state != State::Whole {
            return Typed::error(span);
        }
        let parameters: Vec<&Parameter> = ast.parameters.iter().collect();
        let Some(bound) = self.bind(&name.name, &parameters, arguments, span) else { return Typed::error(span) };
        let lvalues = self.action_parameters(id, span);
        let types = self.actions[id.0].types.clone();
        let Some(copies) = self.copy_in(&parameters, &types, &lvalues, &bound) else { return Typed::error(span) };
        self.action_body(id, &lvalues, copies, None, span);
        Typed { ty: Type::Void, value: Value::Nothing, span }
    }

    /// Copies the arguments of a call to the variables of the parameters. Returns the assignments (destination, source)
    /// that must follow the inlined body, to copy `out` and `inout` parameters back.
    pub(super) fn copy_in(
        &mut self, parameters: &[&'a Parameter], types: &[Type], lvalues: &[LValue], arguments: &[&'a Argument],
    ) -> Option<Vec<(LValue, LValue)>> {
        let mut copies = Vec::new();
        let mut whole = true;
        for (number, parameter) in parameters.iter().enumerate() {
            let argument = arguments[number];
            let lvalue = lvalues[number];
            let ty = types[number];
            let value = match parameter.direction {
                Direction::In | Direction::None => self.argument(argument),
                Direction::Out | Direction::InOut => {
                    let target = self.argument_lvalue(argument, parameter);
                    whole &= target.is_some() || argument.value.is_none();
                    if let Some(target) = target {
                        if !self.same_as_parameter(target.ty, ty, argument.span) {
                            whole = false;
                            continue;
                        }
                        copies.push((target, lvalue));
                    }
                    if parameter.direction == Direction::Out && self.again {
                        self.clear(lvalue, argument.span);
                    }
                    match target {
                        Some(target) if parameter.direction == Direction::InOut => self.read(target, argument.span),
                        _ => continue,
                    }
                }
            };
            match self.scalars(value, ty) {
                Some(scalars) if lvalue.ty != Type::Error => self.write(lvalue, scalars, argument.span),
                _ => whole = false,
            }
        }
        whole.then_some(copies)
    }

    fn same_as_parameter(&mut self, found: Type, expected: Type, span: Span) -> bool {
        if found != expected && found != Type::Error && expected != Type::Error {
            let message = format!("expected `{}`, found `{}`", self.types.display(expected), self.types.display(found));
            let what = Diagnostic::new(span, message, "an `out` or `inout` argument must have exactly this type");
            self.report(what.with_help("use a variable of that type, and copy its value"));
        }
        found == expected
    }

    /// Declares a control in the current scope, and checks it.
    pub(super) fn declare_control(&mut self, control: &'a ast::Control) {
        let id = ControlId(self.controls.len());
        self.declare(&control.name, Symbol::Control(id));
        self.controls.push(ControlInfo { ast: control, seen: self.declarations, state: State::Open });
        let before = self.errors.len();
        self.scratch(|this| {
            let parameters = this.fresh_parameters(&control.parameters, "");
            // Without an instance, each parameter of the constructor is 1.
            let constants = control.constructor.iter().map(|parameter| this.some_constant(parameter)).collect();
            let instance = this.instantiate_control(id, parameters, constants, &control.name.name, "");
            this.control_body(&instance, Vec::new(), control.name.span);
        });
        let broken = self.errors.len() > before;
        self.controls[id.0].state = if broken { State::Broken } else { State::Whole };
    }

    pub(super) fn is_whole(&self, id: ControlId) -> bool {
        self.controls[id.0].state == State::Whole
    }

    /// Creates the symbols of parameters: a variable for each parameter, or an object for a parameter of extern type.
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

    /// Declares parameters in the current scope, and returns the variables of these parameters.
    pub(super) fn declare_parameters(&mut self, parameters: &'a [Parameter], symbols: Vec<Symbol<'a>>) -> Vec<LValue> {
        let mut lvalues = Vec::new();
        for (parameter, symbol) in parameters.iter().zip(symbols) {
            match symbol {
                Symbol::Variable(lvalue) => {
                    lvalues.push(lvalue);
                    self.declare_parameter(parameter, lvalue);
                }
                other => {
                    lvalues.push(LValue::BROKEN);
                    self.declare(&parameter.name, other);
                }
            }
        }
        lvalues
    }

    /// Instantiates a control: creates its variables, objects and tables. The names of its tables begin with `prefix`.
    pub(super) fn instantiate_control(
        &mut self, id: ControlId, parameters: Vec<Symbol<'a>>, constants: Vec<Symbol<'a>>, path: &str, prefix: &str,
    ) -> ControlInstance<'a> {
        let ControlInfo { ast, seen, .. } = self.controls[id.0];
        let before = self.open_scope(0, seen);
        let context = std::mem::replace(&mut self.context, Context::Control);
        let parameters = self.declare_parameters(&ast.parameters, parameters);
        for (parameter, constant) in ast.constructor.iter().zip(constants) {
            self.declare(&parameter.name, constant);
        }
        let (first, ()) = self.collected(|this| {
            for local in &ast.locals {
                this.local(local, path, prefix);
            }
        });
        self.context = context;
        let scope = std::mem::replace(&mut self.scope, before);
        ControlInstance { ast, scope, parameters, first }
    }

    /// Translates a declaration within a control or parser, such as a variable or a table.
    pub(super) fn local(&mut self, local: &'a Local, path: &str, prefix: &str) {
        match local {
            Local::Const(constant) => self.local_constant(constant),
            Local::Variable(variable) => self.variable(variable),
            Local::Instance(instance) => self.local_instance(instance, path, prefix),
            Local::Action(action) => self.declare_action(action, None),
            Local::Table(table) => self.declare_table(table, prefix),
        }
    }

    /// Translates the `apply` block of a control, preceded by the statements that initialise the variables of the
    /// instance.
    pub(super) fn control_body(&mut self, instance: &ControlInstance<'a>, copies: Vec<(LValue, LValue)>, span: Span) {
        self.spend(instance.first.len() as u32, span);
        self.code.extend(instance.first.iter().cloned());
        let before = self.open_scope(instance.scope, u32::MAX);
        let context = std::mem::replace(&mut self.context, Context::Control);
        self.framed(&instance.ast.apply, copies, None, span);
        self.context = context;
        self.close_scope(before);
    }

    fn local_instance(&mut self, instance: &'a ast::Instance, path: &str, prefix: &str) {
        let path = format!("{path}.{}", instance.name.name);
        let symbol = match self.instance_kind(instance) {
            Some(Symbol::Control(id)) => {
                self.nested(instance.name.span, Symbol::Broken, |this| this.inner_control(id, instance, &path, prefix))
            }
            Some(Symbol::Parser(parser)) => {
                match self.constructor(&parser.name, &parser.constructor, &instance.arguments, instance.name.span) {
                    Some(constants) => Symbol::SubParser(parser, constants),
                    None => Symbol::Broken,
                }
            }
            Some(Symbol::Broken) | None => Symbol::Broken,
            Some(_) => self.extern_object(instance, &path),
        };
        self.declare(&instance.name, symbol);
    }

    /// Instantiates a control that is declared within another control.
    fn inner_control(&mut self, id: ControlId, instance: &'a ast::Instance, path: &str, prefix: &str) -> Symbol<'a> {
        let ControlInfo { ast, state, .. } = self.controls[id.0];
        if self.context != Context::Control {
            self.error(instance.name.span, "a parser cannot instantiate a control", "not allowed here");
            return Symbol::Broken;
        }
        if state == State::Open {
            let message = format!("the control `{}` instantiates itself", ast.name.name);
            self.error(instance.name.span, message, "P4 has no recursion");
        }
        if state != State::Whole {
            return Symbol::Broken;
        }
        let Some(constants) = self.constructor(&ast.name, &ast.constructor, &instance.arguments, instance.name.span)
        else {
            return Symbol::Broken;
        };
        // Instantiating a control is far more work for the compiler than translating a statement, so it counts as 100
        // statements.
        if !self.spend(100, instance.name.span) {
            return Symbol::Broken;
        }
        let prefix = format!("{prefix}{}.", instance.name.name);
        let outer = (self.again, self.inner_table, self.checking);
        let copied_out = ast.parameters.iter().any(|p| matches!(p.direction, Direction::Out | Direction::InOut));
        (self.again, self.inner_table, self.checking) = (true, copied_out, false);
        let parameters = self.fresh_parameters(&ast.parameters, &prefix);
        let made = self.instantiate_control(id, parameters, constants, path, &prefix);
        (self.again, self.inner_table, self.checking) = outer;
        self.applied.push(made);
        Symbol::Instance(ControlInstanceId(self.applied.len() - 1))
    }

    /// The symbols of the constructor parameters of a control or parser, from the arguments of an instantiation.
    pub(super) fn constructor(
        &mut self, name: &ast::Ident, parameters: &'a [Parameter], arguments: &'a [Argument], span: Span,
    ) -> Option<Vec<Symbol<'a>>> {
        let parameters: Vec<&Parameter> = parameters.iter().collect();
        let bound = self.bind(&name.name, &parameters, arguments, span)?;
        let mut symbols = Vec::new();
        for (parameter, argument) in parameters.iter().zip(bound) {
            let ty = self.type_of(&parameter.ty);
            let value = self.discarded(|this| this.argument(argument));
            let value = self.converted(value, ty);
            if value.is_error() {
                return None;
            }
            if !value.is_known() {
                self.error(argument.span, "a constructor's argument must be a compile-time constant", "not a constant");
                return None;
            }
            symbols.push(Symbol::Const(value));
        }
        Some(symbols)
    }

    /// A constant of the type of a constructor parameter, with which a control or parser is checked where it is
    /// declared.
    pub(super) fn some_constant(&mut self, parameter: &'a Parameter) -> Symbol<'a> {
        let ty = self.type_of(&parameter.ty);
        let span = parameter.name.span;
        match self.given_constant(ty, 1, span) {
            Some(value) => Symbol::Const(value),
            None => {
                if ty != Type::Error {
                    let instead = "a constructor's parameter is a number, `bool` or `int` of the compiler";
                    self.unsupported(span, "a constructor parameter of this type", Some(instead));
                }
                Symbol::Broken
            }
        }
    }

    /// Translates `instance.apply(arguments)`: inlines the body of the control.
    pub(super) fn apply_control(&mut self, number: ControlInstanceId, arguments: &'a [Argument], span: Span) -> Typed {
        if self.context != Context::Control {
            self.error(span, "a control can only be applied in the `apply` block of a control", "not allowed here");
            return Typed::error(span);
        }
        let ast = self.applied[number.0].ast;
        let lvalues = self.applied[number.0].parameters.clone();
        let types: Vec<Type> = lvalues.iter().map(|lvalue| lvalue.ty).collect();
        let parameters: Vec<&Parameter> = ast.parameters.iter().collect();
        if let Some(object) = types.iter().position(|ty| *ty == Type::Error) {
            let name = &parameters[object].name;
            let what = format!("`apply` of a control with an object (`{}`) as a parameter", name.name);
            self.unsupported(span, &what, Some("call the object's methods in the control that declares the object"));
            return Typed::error(span);
        }
        let Some(bound) = self.bind(&ast.name.name, &parameters, arguments, span) else { return Typed::error(span) };
        let again = std::mem::replace(&mut self.again, true);
        let copies = self.copy_in(&parameters, &types, &lvalues, &bound);
        self.again = again;
        let Some(copies) = copies else { return Typed::error(span) };
        // The variables and tables of the instance exist already, so only the body of the control is translated again.
        let instance = &self.applied[number.0];
        let first = instance.first.clone();
        let scope = instance.scope;
        let instance = ControlInstance { ast, scope, parameters: Vec::new(), first };
        self.control_body(&instance, copies, span);
        Typed { ty: Type::Void, value: Value::Nothing, span }
    }

    /// Returns the slots (scalar variables) that a variable, or a part of a variable, consists of.
    pub(super) fn slots_of(&self, lvalue: LValue) -> impl Iterator<Item = SlotId> + use<> {
        (lvalue.slot..lvalue.slot + self.types.size(lvalue.ty)).map(SlotId)
    }
}
