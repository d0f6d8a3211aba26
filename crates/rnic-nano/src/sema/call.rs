//! Calls: arguments, functions and objects of the architecture.

use super::place::Place;
use super::resolve::Bindings;
use super::typed::{Typed, Value};
use super::types::Type;
use super::{Analyser, Context, Symbol, convert::count};
use crate::ast::{self, Argument, Direction, Expr, ExprKind, Ident, Parameter, Prototype, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, ExternCall, InstanceId, SlotId, Stmt};
use crate::source::Span;

/// What becomes of a call's result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Want {
    /// It is used.
    Value,
    /// It is not.
    Nothing,
    /// It is assigned to this; then the value returned reads it.
    Into(Place),
}

/// A call of something of the architecture.
pub(super) struct Callee<'a> {
    pub(super) prototype: &'a Prototype,
    /// The object, and what its type parameters stand for.
    pub(super) instance: Option<u32>,
    pub(super) bindings: Bindings<'a>,
}

/// What goes in and what comes out of a call.
#[derive(Default)]
struct Passed {
    arguments: Vec<hir::Expr>,
    /// With the types of what comes out.
    outputs: Vec<(Option<Place>, Type)>,
}

impl<'a> Analyser<'a> {
    /// The value of a call, which is appended to the code.
    pub(super) fn call(&mut self, expr: &'a Expr, want: Want) -> Typed {
        let span = expr.span;
        let ExprKind::Call { function, types, arguments } = &expr.kind else { return Typed::error(span) };
        let (name, symbol) = match &function.kind {
            ExprKind::Name(name) => (name, self.lookup(name)),
            ExprKind::TopName(name) => (name, self.lookup_top(name)),
            ExprKind::Member(base, method) => return self.method(base, method, types, arguments, span, want),
            _ => {
                self.error(function.span, "this cannot be called", "expected a name, or a method of an object");
                return Typed::error(span);
            }
        };
        match symbol {
            Symbol::Broken => Typed::error(span),
            Symbol::Function(prototype) => {
                let callee = Callee { prototype, instance: None, bindings: Vec::new() };
                self.call_extern(callee, types, arguments, span, want)
            }
            Symbol::Action(action) => self.call_action(action, arguments, span),
            other => {
                self.cannot_be_called(name, &other);
                Typed::error(span)
            }
        }
    }

    fn cannot_be_called(&mut self, name: &Ident, symbol: &Symbol<'a>) {
        let message = format!("`{}` is {}: it cannot be called", name.name, symbol.what());
        let what = Diagnostic::new(name.span, message, "not a function or action");
        self.report(match symbol {
            Symbol::Table(_) | Symbol::Instance(_) => what.with_help(format!("write `{}.apply()`", name.name)),
            Symbol::Control(_) => {
                what.with_help(format!("declare an object, `{0}() name;`, and call `name.apply(...)`", name.name))
            }
            Symbol::Extern(_) | Symbol::Object(_) => what.with_help("call one of its methods"),
            _ => what,
        });
    }

    /// The argument of each parameter.
    pub(super) fn bind(
        &mut self, name: &str, parameters: &[&'a Parameter], arguments: &'a [Argument], span: Span,
    ) -> Option<Vec<&'a Argument>> {
        if arguments.len() != parameters.len() {
            let message = format!("`{name}` takes {}, found {}", count(parameters.len(), "argument"), arguments.len());
            let what = Diagnostic::new(span, message, "wrong number of arguments");
            let names: Vec<String> = parameters.iter().map(|parameter| self.describe(parameter)).collect();
            self.report(what.with_help(format!("it takes: ({})", names.join(", "))));
            return None;
        }
        if !arguments.iter().any(|argument| argument.name.is_some()) {
            return Some(arguments.iter().collect());
        }
        let mut bound = vec![None; parameters.len()];
        for argument in arguments {
            let Some(given) = &argument.name else {
                self.error(argument.span, "arguments are given by name or in order, not both", "without a name");
                return None;
            };
            self.search(parameters.len(), given.span);
            let position = parameters.iter().position(|parameter| parameter.name.name == given.name);
            let Some(position) = position else {
                let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name.name).collect();
                let what = format!("`{name}` has no parameter `{}`", given.name);
                let what = Diagnostic::new(given.span, what, "unknown parameter");
                self.report(what.with_help(super::scope::they_are(&names)));
                return None;
            };
            if bound[position].replace(argument).is_some() {
                self.error(given.span, format!("the parameter `{}` is given twice", given.name), "here again");
                return None;
            }
        }
        bound.into_iter().collect()
    }

    /// A parameter as it is written.
    pub(super) fn describe(&self, parameter: &Parameter) -> String {
        let direction = match parameter.direction {
            Direction::None => "",
            Direction::In => "in ",
            Direction::Out => "out ",
            Direction::InOut => "inout ",
        };
        format!("{direction}{} {}", written(&parameter.ty), parameter.name.name)
    }

    /// The value of an argument; `_` is reported.
    pub(super) fn argument(&mut self, argument: &'a Argument) -> Typed {
        match &argument.value {
            Some(expr) => self.expression(expr),
            None => {
                self.error(argument.span, "`_` is no value", "only an `out` argument can be left out");
                Typed::error(argument.span)
            }
        }
    }

    /// Where an `out` or `inout` argument goes; what cannot be written to is reported.
    pub(super) fn argument_target(&mut self, argument: &'a Argument, parameter: &Parameter) -> Option<Place> {
        let Some(expr) = &argument.value else {
            if parameter.direction == Direction::InOut {
                self.error(argument.span, "`_` is no value", "only an `out` argument can be left out");
            }
            return None;
        };
        self.target(expr)
    }

    /// Calls a function or a method of the architecture.
    pub(super) fn call_extern(
        &mut self, mut callee: Callee<'a>, types: &'a [ast::Type], arguments: &'a [Argument], span: Span, want: Want,
    ) -> Typed {
        if self.context == Context::Top {
            self.error(span, "a constant cannot be computed by a call", "not known when the program is compiled");
            return Typed::error(span);
        }
        let prototype = callee.prototype;
        let before = self.errors.len();
        if !self.bind_types(&mut callee, types, span) {
            return Typed::error(span);
        }
        let parameters: Vec<&Parameter> = prototype.parameters.iter().collect();
        let Some(bound) = self.bind(&prototype.name.name, &parameters, arguments, span) else {
            return Typed::error(span);
        };
        let mut passed = Passed::default();
        for (parameter, argument) in parameters.iter().zip(bound) {
            self.pass(parameter, argument, &mut callee.bindings, &mut passed);
        }
        if let Some((open, _)) = callee.bindings.iter().find(|(_, bound)| bound.is_none())
            && self.errors.len() == before
        {
            let what = Diagnostic::new(span, format!("the type `{open}` cannot be told from the arguments"), "no type");
            let name = &prototype.name.name;
            self.report(what.with_help(format!("write it: `{name}<bit<32>>(...)`")));
            return Typed::error(span);
        }
        let result = prototype.result.as_ref().map_or(Type::Void, |ty| self.type_with(ty, &callee.bindings));
        if self.errors.len() > before || self.stopped || result == Type::Error {
            return Typed::error(span);
        }
        self.emit_call(&callee, passed, result, span, want)
    }

    fn bind_types(&mut self, callee: &mut Callee<'a>, types: &'a [ast::Type], span: Span) -> bool {
        let parameters = &callee.prototype.type_parameters;
        if !types.is_empty() && types.len() != parameters.len() {
            let name = &callee.prototype.name.name;
            let message = format!("`{name}` takes {}, found {}", count(parameters.len(), "type argument"), types.len());
            self.error(span, message, "wrong number of type arguments");
            return false;
        }
        for (number, parameter) in parameters.iter().enumerate() {
            let given = types.get(number).filter(|ty| ty.kind != TypeKind::Any).map(|ty| self.stored_type(ty));
            callee.bindings.push((&parameter.name, given));
        }
        true
    }

    /// Evaluates one argument.
    fn pass(
        &mut self, parameter: &'a Parameter, argument: &'a Argument, bindings: &mut Bindings<'a>, passed: &mut Passed,
    ) {
        let position = self.code.len();
        let scalars = match parameter.direction {
            Direction::In | Direction::None => {
                let value = self.argument(argument);
                let value = self.parameter_value(value, parameter, bindings);
                if parameter.direction == Direction::None && !value.is_known() {
                    self.error(
                        argument.span,
                        "this argument must be known when the program is compiled",
                        "not a constant",
                    );
                }
                value
            }
            Direction::Out | Direction::InOut => {
                let place = self.argument_target(argument, parameter);
                let read = match place {
                    Some(place) => self.read(place, argument.span),
                    None => Typed::error(argument.span),
                };
                let read = self.parameter_value(read, parameter, bindings);
                let ty = self.type_with(&parameter.ty, bindings);
                if place.is_some_and(|place| place.ty != ty) && !read.is_error() {
                    let message = format!("an argument that is written must be of type `{}`", self.types.display(ty));
                    self.error(argument.span, message, "another type");
                }
                passed.outputs.push((place, ty));
                if parameter.direction == Direction::Out {
                    return;
                }
                read
            }
        };
        if self.code.len() > position {
            self.spend(passed.arguments.len() as u32, argument.span);
            let mut earlier: Vec<_> = passed.arguments.iter_mut().collect();
            self.save(&mut earlier, Some(position), argument.span);
        }
        if let Value::Scalars(scalars) = scalars.value {
            passed.arguments.extend(scalars);
        }
    }

    /// A value as one of a parameter's type; a type parameter that is not known yet gets that of the value.
    fn parameter_value(&mut self, value: Typed, parameter: &'a Parameter, bindings: &mut Bindings<'a>) -> Typed {
        if let TypeKind::Named { name, .. } = &parameter.ty.kind
            && let Some((_, open @ None)) = bindings.iter_mut().find(|(parameter, _)| **parameter == *name.name)
        {
            match value.ty {
                Type::Error => return value,
                Type::Integer | Type::List | Type::Void => {
                    let message =
                        format!("the type `{}` cannot be told from `{}`", name.name, self.types.display(value.ty));
                    self.report(
                        Diagnostic::new(value.span, message, "no type").with_help("cast it to the type that is meant"),
                    );
                    return Typed::error(value.span);
                }
                ty => *open = Some(ty),
            }
        }
        let ty = self.type_with(&parameter.ty, bindings);
        self.converted(value, ty)
    }

    fn emit_call(&mut self, callee: &Callee<'a>, passed: Passed, ty: Type, span: Span, want: Want) -> Typed {
        let name = callee.prototype.name.name.to_string();
        let direct = match want {
            Want::Into(place) if place.ty == ty && place.low.is_none() && passed.outputs.is_empty() => Some(place),
            _ => None,
        };
        let size = self.types.size(ty);
        let result = match want {
            Want::Nothing => None,
            _ if size == 0 => None,
            _ => Some(direct.unwrap_or_else(|| self.temporary(ty, &name, span))),
        };
        let slots = |place: Place, size: u32| (place.slot..place.slot + size).map(|slot| Some(SlotId(slot)));
        let mut results = vec![None; size as usize];
        if let Some(place) = result {
            results = slots(place, size).collect();
        }
        let mut copied = Vec::new();
        for (place, ty) in passed.outputs {
            let size = self.types.size(ty);
            match place {
                Some(place) if place.low.is_none() => results.extend(slots(place, size)),
                Some(place) => {
                    let temporary = self.temporary(ty, &name, span);
                    results.extend(slots(temporary, size));
                    copied.push((place, temporary));
                }
                None => results.extend(vec![None; size as usize]),
            }
        }
        if self.stopped {
            return Typed::error(span);
        }
        let instance = callee.instance.map(InstanceId);
        let call = ExternCall { function: name, instance, arguments: passed.arguments, results, span };
        self.emit(Stmt::Extern(call), span);
        for (place, temporary) in copied {
            if let Value::Scalars(scalars) = self.read(temporary, span).value {
                self.write(place, scalars, span);
            }
        }
        match result {
            Some(place) => self.read(place, span),
            None if size == 0 && ty != Type::Void => Typed { ty, value: Value::Scalars(Vec::new()), span },
            None => Typed { ty: Type::Void, value: Value::Nothing, span },
        }
    }
}

/// A type as it is written, as far as that is short.
pub(super) fn written(ty: &ast::Type) -> String {
    let width = |expr: &Expr| match &expr.kind {
        ExprKind::Number { value, .. } => value.to_string(),
        ExprKind::Name(name) => name.name.to_string(),
        _ => "...".to_string(),
    };
    match &ty.kind {
        TypeKind::Bool => "bool".to_string(),
        TypeKind::Bit(bits) => format!("bit<{}>", width(bits)),
        TypeKind::Int(bits) => format!("int<{}>", width(bits)),
        TypeKind::Integer => "int".to_string(),
        TypeKind::Error => "error".to_string(),
        TypeKind::Any => "_".to_string(),
        TypeKind::Named { name, arguments } if arguments.is_empty() => name.name.to_string(),
        TypeKind::Named { name, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(written).collect();
            format!("{}<{}>", name.name, arguments.join(", "))
        }
    }
}
