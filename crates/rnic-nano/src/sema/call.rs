//! Part of the semantic analysis of P4: translates calls of the functions and methods that the NIC architecture
//! provides, and binds arguments to parameters.

use super::lvalue::LValue;
use super::resolve::Bindings;
use super::typed::{Typed, Value};
use super::types::Type;
use super::{Analyser, Context, Symbol, convert::count};
use crate::ast::{self, Argument, Direction, Expr, ExprKind, Ident, Parameter, Prototype, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::hir::{self, ExternCall, InstanceId, SlotId, Stmt};
use crate::source::Span;

/// The way in which the calling code uses the result of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Want {
    /// The calling code uses the result as a value in an expression.
    Value,
    /// The result of the call is not used.
    Nothing,
    /// The result is assigned to this lvalue. The translated call returns a value that reads the lvalue.
    Into(LValue),
}

/// A function or method of the NIC architecture that the program calls.
pub(super) struct Callee<'a> {
    pub(super) prototype: &'a Prototype,
    /// The id of the object whose method is called; `None` for a function.
    pub(super) instance: Option<u32>,
    /// The types that are bound to the type parameters of the function or method.
    pub(super) bindings: Bindings<'a>,
}

/// The arguments of a call after translation to HIR.
#[derive(Default)]
struct Passed {
    arguments: Vec<hir::Expr>,
    /// For each `out` or `inout` parameter, the lvalue that receives the result and its type. The lvalue is `None` if
    /// the argument is `_`.
    outputs: Vec<(Option<LValue>, Type)>,
}

impl<'a> Analyser<'a> {
    /// Translates a call: appends the call to the code that is being generated, and returns its result.
    pub(super) fn call(&mut self, expr: &'a Expr, want: Want) -> Typed {
        let span = expr.span;
        let ExprKind::Call { function, types, arguments } = &expr.kind else { return Typed::error(span) };
        let (name, symbol) = match &function.kind {
            ExprKind::Name(name) if &*name.name == "static_assert" && self.find("static_assert").is_none() => {
                return self.static_assert(arguments, span);
            }
            ExprKind::Name(name) if &*name.name == "verify" && self.find("verify").is_none() => {
                let what = Diagnostic::new(span, "`verify` is a statement of a parser's state", "not allowed here");
                self.report(what.with_help("write it outside of blocks and branches: it decides the next state"));
                return Typed::error(span);
            }
            ExprKind::Name(name) => (name, self.lookup(name)),
            ExprKind::TopName(name) => (name, self.lookup_top(name)),
            ExprKind::Member(base, method) => return self.method(base, method, types, arguments, span, want),
            _ => {
                self.error(
                    function.span,
                    "this expression cannot be called",
                    "expected the name of a function or action, or a method of an object",
                );
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
            Symbol::Inlined(function) => self.call_function(function, arguments, span),
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
                what.with_help(format!("declare an instance, `{0}() name;`, and call `name.apply(...)`", name.name))
            }
            Symbol::Extern(_) | Symbol::Object(_) => what.with_help("call one of the object's methods"),
            _ => what,
        });
    }

    /// Binds arguments to parameters by position or by name. Returns the argument of each parameter, in the order of
    /// the parameters.
    pub(super) fn bind(
        &mut self, name: &str, parameters: &[&'a Parameter], arguments: &'a [Argument], span: Span,
    ) -> Option<Vec<&'a Argument>> {
        let omissible = parameters.iter().filter(|parameter| parameter.default.is_some()).count();
        if arguments.len() > parameters.len() || arguments.len() + omissible < parameters.len() {
            let message = format!("`{name}` takes {}, found {}", count(parameters.len(), "argument"), arguments.len());
            let what = Diagnostic::new(span, message, "wrong number of arguments");
            let names: Vec<String> = parameters.iter().map(|parameter| self.describe(parameter)).collect();
            self.report(what.with_help(format!("the parameters are: ({})", names.join(", "))));
            return None;
        }
        if !arguments.iter().any(|argument| argument.name.is_some()) {
            let given = arguments.iter().map(Some).chain(std::iter::repeat(None));
            let bound = parameters.iter().zip(given).map(|(parameter, given)| given.or(parameter.default.as_ref()));
            let bound: Option<Vec<_>> = bound.collect();
            if bound.is_none() {
                self.omitted(name, parameters, arguments.len(), span);
            }
            return bound;
        }
        let mut bound = vec![None; parameters.len()];
        for argument in arguments {
            let Some(given) = &argument.name else {
                self.error(
                    argument.span,
                    "arguments must be given all by name or all in order",
                    "this argument has no name",
                );
                return None;
            };
            self.search(parameters.len(), given.span);
            let position = parameters.iter().position(|parameter| parameter.name.name == given.name);
            let Some(position) = position else {
                let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name.name).collect();
                let what = format!("`{name}` has no parameter `{}`", given.name);
                let what = Diagnostic::new(given.span, what, "unknown parameter");
                self.report(what.with_help(super::scope::list_of_names(&names)));
                return None;
            };
            if bound[position].replace(argument).is_some() {
                self.error(given.span, format!("the parameter `{}` is given twice", given.name), "given again here");
                return None;
            }
        }
        let bound: Option<Vec<_>> =
            bound.into_iter().zip(parameters).map(|(given, parameter)| given.or(parameter.default.as_ref())).collect();
        if bound.is_none() {
            self.omitted(name, parameters, 0, span);
        }
        bound
    }

    /// Reports that a call omits a parameter without a default value; the first `given` parameters have arguments.
    fn omitted(&mut self, name: &str, parameters: &[&'a Parameter], given: usize, span: Span) {
        let missing = parameters[given..].iter().filter(|parameter| parameter.default.is_none());
        let names: Vec<&str> = missing.map(|parameter| &*parameter.name.name).collect();
        let message = format!("the call of `{name}` omits a parameter without a default value");
        self.report(
            Diagnostic::new(span, message, "an argument is missing").with_help(super::scope::list_of_names(&names)),
        );
    }

    /// Evaluates `static_assert(condition)` or `static_assert(condition, "message")`.
    fn static_assert(&mut self, arguments: &'a [Argument], span: Span) -> Typed {
        let (condition, message) = match arguments {
            [Argument { value: Some(condition), .. }] => (condition, None),
            [
                Argument { value: Some(condition), .. },
                Argument { value: Some(Expr { kind: ExprKind::String(text), .. }), .. },
            ] => (condition, Some(text)),
            _ => {
                let what = Diagnostic::new(span, "`static_assert` takes a condition and a message", "wrong arguments");
                self.report(what.with_help("write `static_assert(condition, \"message\");`"));
                return Typed::error(span);
            }
        };
        let value = self.discarded(|this| this.expression(condition));
        let holds = self.known_scalar(value, Type::Bool, "the condition of `static_assert`");
        if holds == Some(0) {
            let text = message.map_or(String::new(), |text| format!(": {text}"));
            self.error(span, format!("static_assert failed{text}"), "the condition is false");
        }
        Typed::scalar(Type::Bool, hir::Expr { width: 1, kind: hir::ExprKind::Const(1) }, span)
    }

    /// Formats a parameter in P4 syntax, for error messages.
    pub(super) fn describe(&self, parameter: &Parameter) -> String {
        let direction = match parameter.direction {
            Direction::None => "",
            Direction::In => "in ",
            Direction::Out => "out ",
            Direction::InOut => "inout ",
        };
        format!("{direction}{} {}", written(&parameter.ty), parameter.name.name)
    }

    /// Translates an argument and returns its value. The argument `_` is an error here.
    pub(super) fn argument(&mut self, argument: &'a Argument) -> Typed {
        match &argument.value {
            Some(expr) => self.expression(expr),
            None => {
                self.error(argument.span, "`_` is not a value", "only an `out` argument can be left out");
                Typed::error(argument.span)
            }
        }
    }

    /// Translates an argument for an `out` or `inout` parameter to the lvalue that it denotes. Reports an error if the
    /// program cannot write it.
    pub(super) fn argument_lvalue(&mut self, argument: &'a Argument, parameter: &Parameter) -> Option<LValue> {
        let Some(expr) = &argument.value else {
            if parameter.direction == Direction::InOut {
                self.error(argument.span, "`_` is not a value", "only an `out` argument can be left out");
            }
            return None;
        };
        self.writable_lvalue(expr)
    }

    /// Translates a call of a function or method that the architecture provides.
    pub(super) fn call_extern(
        &mut self, mut callee: Callee<'a>, types: &'a [ast::Type], arguments: &'a [Argument], span: Span, want: Want,
    ) -> Typed {
        if self.context == Context::Top {
            self.error(span, "the value of a constant cannot contain a call", "not a compile-time constant");
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
            let what = Diagnostic::new(
                span,
                format!("the type `{open}` cannot be inferred from the arguments"),
                "not inferred",
            );
            let name = &prototype.name.name;
            self.report(what.with_help(format!("write the type: `{name}<bit<32>>(...)`")));
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

    /// Translates one argument of a call, and appends it to `passed`.
    fn pass(
        &mut self, parameter: &'a Parameter, argument: &'a Argument, bindings: &mut Bindings<'a>, passed: &mut Passed,
    ) {
        let position = self.code.len();
        let scalars = match parameter.direction {
            Direction::In | Direction::None => {
                let value = self.argument(argument);
                let value = self.parameter_value(value, parameter, bindings);
                if parameter.direction == Direction::None && !value.is_known() {
                    self.error(argument.span, "this argument must be a compile-time constant", "not a constant");
                }
                value
            }
            Direction::Out | Direction::InOut => {
                let lvalue = self.argument_lvalue(argument, parameter);
                let read = match lvalue {
                    Some(lvalue) => self.read(lvalue, argument.span),
                    None => Typed::error(argument.span),
                };
                let read = self.parameter_value(read, parameter, bindings);
                let ty = self.type_with(&parameter.ty, bindings);
                if lvalue.is_some_and(|lvalue| lvalue.ty != ty) && !read.is_error() {
                    let message =
                        format!("an `out` or `inout` argument must have exactly the type `{}`", self.types.display(ty));
                    self.error(argument.span, message, "different type");
                }
                passed.outputs.push((lvalue, ty));
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

    /// Converts a value to the type of a parameter. If this type is a type parameter that has no type yet, the function
    /// binds the type parameter to the type of the value.
    fn parameter_value(&mut self, value: Typed, parameter: &'a Parameter, bindings: &mut Bindings<'a>) -> Typed {
        if let TypeKind::Named { name, .. } = &parameter.ty.kind
            && let Some((_, open @ None)) = bindings.iter_mut().find(|(parameter, _)| **parameter == *name.name)
        {
            match value.ty {
                Type::Error => return value,
                Type::Integer | Type::List | Type::Void => {
                    let message =
                        format!("the type `{}` cannot be inferred from `{}`", name.name, self.types.display(value.ty));
                    self.report(
                        Diagnostic::new(value.span, message, "not inferred")
                            .with_help("cast the argument to the intended type"),
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
            Want::Into(lvalue) if lvalue.ty == ty && lvalue.low.is_none() && passed.outputs.is_empty() => Some(lvalue),
            _ => None,
        };
        let size = self.types.size(ty);
        let result = match want {
            Want::Nothing => None,
            _ if size == 0 => None,
            _ => Some(direct.unwrap_or_else(|| self.temporary(ty, &name, span))),
        };
        let slots = |lvalue: LValue, size: u32| (lvalue.slot..lvalue.slot + size).map(|slot| Some(SlotId(slot)));
        let mut results = vec![None; size as usize];
        if let Some(lvalue) = result {
            results = slots(lvalue, size).collect();
        }
        let mut copied = Vec::new();
        for (lvalue, ty) in passed.outputs {
            let size = self.types.size(ty);
            match lvalue {
                Some(lvalue) if lvalue.low.is_none() => results.extend(slots(lvalue, size)),
                Some(lvalue) => {
                    let temporary = self.temporary(ty, &name, span);
                    results.extend(slots(temporary, size));
                    copied.push((lvalue, temporary));
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
        for (lvalue, temporary) in copied {
            if let Value::Scalars(scalars) = self.read(temporary, span).value {
                self.write(lvalue, scalars, span);
            }
        }
        match result {
            Some(lvalue) => self.read(lvalue, span),
            None if size == 0 && ty != Type::Void => Typed { ty, value: Value::Scalars(Vec::new()), span },
            None => Typed { ty: Type::Void, value: Value::Nothing, span },
        }
    }
}

/// Formats a type in P4 syntax, for error messages. Type arguments within type arguments are left out.
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
        TypeKind::Stack(of, size) => format!("{}[{}]", written(of), width(size)),
        TypeKind::Tuple(of) => format!("tuple<{}>", of.iter().map(written).collect::<Vec<_>>().join(", ")),
        TypeKind::Named { name, arguments } if arguments.is_empty() => name.name.to_string(),
        TypeKind::Named { name, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(written).collect();
            format!("{}<{}>", name.name, arguments.join(", "))
        }
    }
}
