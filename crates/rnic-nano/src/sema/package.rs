//! Part of the semantic analysis of P4: the package instance `main`, which names the parser and the controls of the
//! program. Checks its arguments, and translates the parser and controls.

use super::call::written;
use super::lvalue::LValue;
use super::resolve::Bindings;
use super::scope::Symbol;
use super::types::Type;
use super::{Analyser, MAX_NODES, Pipe};
use crate::ast::{self, Direction, ExprKind, Ident, Parameter, Prototype, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::hir;
use crate::source::Span;
use std::collections::BTreeMap;

/// A parser or control that `main` names, together with the type that the architecture requires for it.
struct ProgrammableBlock<'a> {
    symbol: Symbol<'a>,
    /// The parser type or control type that the architecture declares.
    prototype: &'a Prototype,
    /// The types that are bound to the type parameters of `prototype`.
    bindings: Bindings<'a>,
    parameters: &'a [Parameter],
    /// The arguments of the constructor, and their source range.
    constructor: (&'a [ast::Argument], Span),
}

/// The variables that the two blocks of a pipeline share (parser and ingress control, or egress control and deparser),
/// by the names of the parameters in the architecture.
type Shared<'a> = BTreeMap<&'a str, Symbol<'a>>;

impl<'a> Analyser<'a> {
    /// Translates the program that `main` describes; `None` if the program has an error.
    pub(super) fn program(&mut self) -> Option<hir::Program> {
        let Some(item) = self.main else {
            let span = self.module.items.last().map_or(Span::default(), |item| item.span);
            if self.errors.is_empty() {
                let what = Diagnostic::new(span, "the program has no `main`", "the program ends here");
                self.report(what.with_help(
                    "end the program with `NanoTransport(MyParser(), MyIngress(), MyEgress(), MyDeparser()) main;`",
                ));
            }
            return None;
        };
        let ast::ItemKind::Instance(instance) = &item.kind else { return None };
        let blocks = self.programmable_blocks(instance)?;
        if !self.errors.is_empty() {
            return None;
        }
        // All declarations have been checked. Now the parser and the controls are translated into the program.
        (self.work, self.max_work, self.checking) = (0, MAX_NODES, false);
        let [parser, ingress, egress, deparser] = &blocks[..] else { return None };
        let ingress = self.pipeline(parser, ingress);
        let egress = self.pipeline(egress, deparser);
        let warnings = super::warn::warnings([&ingress, &egress], &self.instances);
        let (ingress, egress) = (ingress.code, egress.code);
        let annotations = item.annotations.iter().map(|annotation| self.annotation(annotation)).collect();
        let instances = std::mem::take(&mut self.instances);
        let constants = std::mem::take(&mut self.constants);
        Some(hir::Program { ingress, egress, instances, annotations, constants, warnings })
    }

    /// Returns the parser and the controls that `main` names, after checking each against its type in the architecture.
    fn programmable_blocks(&mut self, instance: &'a ast::Instance) -> Option<Vec<ProgrammableBlock<'a>>> {
        let TypeKind::Named { name, arguments: types } = &instance.ty.kind else { return None };
        let Symbol::Package(package) = self.lookup(name) else { return None };
        if &*instance.name.name != "main" {
            let message = format!("the instance of `{}` must be called `main`", name.name);
            self.error(instance.name.span, message, "expected `main`");
        }
        if package.parameters.len() != 4 || &*name.name != "NanoTransport" {
            let instead = Some("include <nanotransport.p4>, and end with `NanoTransport(...) main;`");
            self.unsupported(name.span, "an architecture other than NanoTransport", instead);
            return None;
        }
        let parameters: Vec<&Parameter> = package.parameters.iter().collect();
        let bound = self.bind(&name.name, &parameters, &instance.arguments, instance.name.span)?;
        let mut bindings: Bindings<'a> = Vec::new();
        for (number, parameter) in package.type_parameters.iter().enumerate() {
            let given = types.get(number).filter(|ty| ty.kind != TypeKind::Any).map(|ty| self.stored_type(ty));
            bindings.push((&parameter.name, given));
        }
        let mut blocks = Vec::new();
        for (parameter, argument) in parameters.iter().zip(bound) {
            blocks.extend(self.programmable_block(parameter, argument, &mut bindings));
        }
        (blocks.len() == parameters.len()).then_some(blocks)
    }

    /// Checks one argument of the package: it must name a parser or control of the required type.
    fn programmable_block(
        &mut self, parameter: &'a Parameter, argument: &'a ast::Argument, shared: &mut Bindings<'a>,
    ) -> Option<ProgrammableBlock<'a>> {
        let TypeKind::Named { name: type_name, arguments } = &parameter.ty.kind else { return None };
        let (prototype, is_parser) = match self.lookup(type_name) {
            Symbol::ParserType(prototype) => (prototype, true),
            Symbol::ControlType(prototype) => (prototype, false),
            _ => return None,
        };
        let expected = if is_parser { "a parser" } else { "a control" };
        let Some((name, given)) = constructed(argument) else {
            let message = format!("`{}` of the package must be {expected}", parameter.name.name);
            self.report(Diagnostic::new(argument.span, message, "expected `NAME()`"));
            return None;
        };
        let symbol = self.lookup(name);
        let parameters = match &symbol {
            Symbol::Broken => return None,
            Symbol::Parser(parser) if is_parser => &parser.parameters,
            Symbol::Control(id) if !is_parser => {
                if !self.is_whole(*id) {
                    return None;
                }
                &self.controls[id.0].ast.parameters
            }
            other => {
                let message = format!(
                    "`{}` is {}, but `{}` of the package must be {expected}",
                    name.name,
                    other.what(),
                    parameter.name.name
                );
                self.error(name.span, message, &format!("not {expected}"));
                return None;
            }
        };
        // A type parameter of a parser or control type corresponds to a type parameter of the package by its position,
        // not by its name.
        let outer = arguments.iter().map(|argument| match &argument.kind {
            TypeKind::Named { name, .. } => shared.iter().position(|(parameter, _)| **parameter == *name.name),
            _ => None,
        });
        let outer: Vec<Option<usize>> = outer.collect();
        let mut bindings: Bindings<'a> = Vec::new();
        for (parameter, outer) in prototype.type_parameters.iter().zip(&outer) {
            bindings.push((&parameter.name, outer.and_then(|outer| shared[outer].1)));
        }
        self.check_parameters(name, parameters, prototype, &mut bindings);
        for ((_, bound), outer) in bindings.iter().zip(outer) {
            if let Some(outer) = outer {
                shared[outer].1 = *bound;
            }
        }
        let constructor = (given, argument.span);
        match &symbol {
            Symbol::Control(id) => {
                let control = self.controls[id.0].ast;
                self.constructor(&control.name, &control.constructor, given, argument.span)?;
            }
            Symbol::Parser(parser) => {
                self.constructor(&parser.name, &parser.constructor, given, argument.span)?;
            }
            _ => {}
        }
        Some(ProgrammableBlock { symbol, prototype, bindings, parameters, constructor })
    }

    /// Checks that a parser or control has the parameters that its type in the architecture requires.
    fn check_parameters(
        &mut self, name: &Ident, parameters: &'a [Parameter], prototype: &'a Prototype, bindings: &mut Bindings<'a>,
    ) {
        let expected = &prototype.parameters;
        if parameters.len() != expected.len() {
            let message = format!(
                "`{}` has {}, but `{}` has {}",
                name.name,
                super::convert::count(parameters.len(), "parameter"),
                prototype.name.name,
                expected.len()
            );
            let all: Vec<String> = expected.iter().map(|parameter| self.describe(parameter)).collect();
            let what = Diagnostic::new(name.span, message, "wrong number of parameters");
            let what = what.with_related(prototype.name.span, "the architecture's declaration");
            return self.report(what.with_help(format!("the parameters are: ({})", all.join(", "))));
        }
        for (number, (parameter, expected)) in parameters.iter().zip(expected).enumerate() {
            let found = self.type_of(&parameter.ty);
            let needed = self.required_type(expected, found, bindings);
            if parameter.direction == expected.direction
                && (found == needed || found == Type::Error || needed == Type::Error)
            {
                continue;
            }
            let direction = Parameter { ty: self.shown(expected, bindings), ..expected.clone() };
            let message =
                format!("parameter {} of `{}` does not match `{}`", number + 1, name.name, prototype.name.name);
            let label = format!("expected `{}`, found `{}`", self.describe(&direction), self.describe(parameter));
            let what = Diagnostic::new(parameter.ty.span.to(parameter.name.span), message, label);
            self.report(what.with_related(expected.ty.span.to(expected.name.span), "the architecture's declaration"));
        }
    }

    /// Returns the type that a parameter of the program must have. If the architecture declares the parameter with an
    /// unbound type parameter, this function binds the type parameter to the type `found`.
    fn required_type(&mut self, expected: &'a Parameter, found: Type, bindings: &mut Bindings<'a>) -> Type {
        if let TypeKind::Named { name, .. } = &expected.ty.kind
            && let Some((_, open @ None)) = bindings.iter_mut().find(|(parameter, _)| **parameter == *name.name)
        {
            *open = Some(found);
        }
        self.type_with(&expected.ty, bindings)
    }

    /// Returns the type that a parameter of the program must have, as an error message shows it: a bound type parameter
    /// is replaced by its type.
    fn shown(&self, expected: &Parameter, bindings: &Bindings<'a>) -> ast::Type {
        let mut ty = expected.ty.clone();
        if let TypeKind::Named { name, .. } = &mut ty.kind
            && let Some((_, Some(bound))) = bindings.iter().find(|(parameter, _)| **parameter == *name.name)
        {
            name.name = self.types.display(*bound).into();
        }
        ty
    }

    /// Translates the two blocks of a pipeline, which run one after the other: parser and ingress control, or egress
    /// control and deparser.
    fn pipeline(&mut self, first: &ProgrammableBlock<'a>, second: &ProgrammableBlock<'a>) -> Pipe {
        self.pipe = Pipe::default();
        self.code.clear();
        let mut shared = Shared::new();
        for block in [first, second] {
            let symbols = self.shared_variables(block, &mut shared);
            self.lower_block(block, symbols);
        }
        std::mem::take(&mut self.pipe)
    }

    fn lower_block(&mut self, block: &ProgrammableBlock<'a>, symbols: Vec<Symbol<'a>>) {
        match &block.symbol {
            Symbol::Parser(parser) => {
                let (given, span) = block.constructor;
                let constants = self.constructor(&parser.name, &parser.constructor, given, span).unwrap_or_default();
                let (states, _) = self.parser(parser, symbols, constants, super::stack::Counts::new());
                self.pipe.code.states = states;
            }
            Symbol::Control(id) => {
                let ast = self.controls[id.0].ast;
                let (code, ()) = self.collected(|this| {
                    let constants = this
                        .constructor(&ast.name, &ast.constructor, block.constructor.0, block.constructor.1)
                        .unwrap_or_default();
                    let instance = this.instantiate_control(*id, symbols, constants, &ast.name.name, "");
                    this.control_body(&instance, Vec::new(), ast.name.span);
                });
                let is_deparser =
                    block.prototype.parameters.iter().any(|parameter| written(&parameter.ty) == "packet_out");
                *(if is_deparser { &mut self.pipe.code.deparser } else { &mut self.pipe.code.control }) = code;
            }
            _ => {}
        }
    }

    /// Returns the variables of a block's parameters. Parameters that have the same name in both blocks of the
    /// architecture are one variable.
    fn shared_variables(&mut self, block: &ProgrammableBlock<'a>, shared: &mut Shared<'a>) -> Vec<Symbol<'a>> {
        let mut symbols = Vec::new();
        for (expected, parameter) in block.prototype.parameters.iter().zip(block.parameters) {
            let known = shared.get(&*expected.name.name).cloned();
            let symbol = match (known, self.type_of(&parameter.ty)) {
                (Some(symbol), _) => symbol,
                (None, Type::Extern(number)) => Symbol::Object(number),
                (None, ty) => {
                    let lvalue = self.allocate(ty, &expected.name.name, true, parameter.name.span);
                    self.pipe.notes.shared.push(lvalue.slot..self.pipe.code.slots.len() as u32);
                    if !block.bindings.iter().any(|(name, _)| *name == written(&expected.ty)) {
                        self.connect_to_architecture(lvalue, expected);
                    }
                    Symbol::Variable(lvalue)
                }
            };
            if let Symbol::Variable(_) = symbol {
                shared.insert(&expected.name.name, symbol.clone());
            }
            symbols.push(symbol);
        }
        symbols
    }

    /// Adds the slots (scalar variables) of a parameter to the inputs and outputs of the pipeline. The NIC writes the
    /// inputs before it runs the pipeline, and reads the outputs afterwards.
    fn connect_to_architecture(&mut self, lvalue: LValue, expected: &Parameter) {
        let slots = self.slots_of(lvalue).map(|slot| (self.pipe.code.slots[slot.0 as usize].name.clone(), slot));
        let slots: Vec<_> = slots.collect();
        if matches!(expected.direction, Direction::In | Direction::InOut | Direction::None) {
            self.pipe.code.inputs.extend(slots.iter().cloned());
        }
        if matches!(expected.direction, Direction::Out | Direction::InOut) {
            self.pipe.code.outputs.extend(slots);
        }
    }

    fn annotation(&mut self, annotation: &'a ast::Annotation) -> (String, String) {
        let arguments: Vec<String> =
            annotation.arguments.iter().map(|argument| self.annotation_argument(argument)).collect();
        (annotation.name.name.to_string(), arguments.join(","))
    }

    fn annotation_argument(&mut self, argument: &'a ast::Expr) -> String {
        if let ExprKind::String(text) = &argument.kind {
            return text.to_string();
        }
        let value = self.discarded(|this| this.expression(argument));
        let whole = !value.is_error();
        value.into_scalar_text().unwrap_or_else(|| {
            if whole {
                self.error(
                    argument.span,
                    "an annotation's argument must be a string or a number",
                    "not a string or a number",
                );
            }
            String::new()
        })
    }
}

/// Returns NAME and the arguments if the argument is the expression `NAME(arguments)`.
fn constructed(argument: &ast::Argument) -> Option<(&Ident, &[ast::Argument])> {
    match &argument.value.as_ref()?.kind {
        ExprKind::Call { function, types, arguments } if types.is_empty() => match &function.kind {
            ExprKind::Name(name) | ExprKind::TopName(name) => Some((name, arguments)),
            _ => None,
        },
        _ => None,
    }
}
