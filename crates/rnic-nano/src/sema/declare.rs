//! Part of the semantic analysis of P4: checks and translates top-level declarations.

use super::scope::{ExternObject, Symbol};
use super::typed::Typed;
use super::types::{EnumInfo, Type, width_for};
use super::{Analyser, fold};
use crate::ast::{self, Ident, Item, ItemKind, TypeKind};
use crate::diagnostic::{Diagnostic, nearest};
use crate::hir;
use crate::source::Span;
use std::collections::BTreeMap;

impl<'a> Analyser<'a> {
    /// Checks that the program declares each constant for which the user gives another value.
    pub(super) fn check_overrides(&mut self) {
        let errors = self.module.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Error(names) => Some(names),
            _ => None,
        });
        self.types.failures = errors.flatten().map(|name| name.name.clone()).collect();
        let constants = self.module.items.iter().filter_map(|item| match &item.kind {
            ItemKind::Const(constant) => Some(&*constant.name.name),
            _ => None,
        });
        // In the list of constants that the error message prints, the program's own constants come before the constants
        // of included files.
        let mut names: Vec<&str> = constants.collect();
        names.reverse();
        for (number, (name, _)) in self.overrides.iter().enumerate() {
            let message = if self.overrides[..number].iter().any(|(other, _)| other == name) {
                format!("the constant `{name}` is given twice")
            } else if !names.contains(&name.as_str()) {
                format!("the program has no constant `{name}` whose value can be replaced")
            } else {
                continue;
            };
            let what = Diagnostic::new(Span::default(), message, "in this program");
            let known = super::scope::list_of_names(&names);
            self.report(what.with_help(match nearest(name, names.iter().copied()) {
                Some(near) if !names.contains(&name.as_str()) => format!("did you mean `{near}`? {known}"),
                _ => known,
            }));
        }
    }

    /// Checks and translates one top-level declaration.
    pub(super) fn item(&mut self, item: &'a Item) {
        if self.stopped {
            return;
        }
        match &item.kind {
            ItemKind::Const(constant) => self.top_constant(constant),
            ItemKind::Typedef { name, of } => {
                let ty = self.stored_type(of);
                self.declare_type(name, ty);
            }
            ItemKind::Header(header) => self.declare_struct(header, true),
            ItemKind::Struct(of) => self.declare_struct(of, false),
            ItemKind::Enum(of) => self.declare_enum(of),
            ItemKind::Error(names) => self.check_errors(names),
            ItemKind::MatchKind(_) => {}
            ItemKind::Extern(of) => {
                self.types.externs.push(of);
                let ty = Type::Extern(self.types.externs.len() as u32 - 1);
                for prototype in of.constructors.iter().chain(&of.methods) {
                    self.check_prototype(prototype, &of.type_parameters);
                }
                self.declare(&of.name, Symbol::Type(ty));
            }
            ItemKind::ExternFunction(prototype) => {
                self.check_prototype(prototype, &[]);
                self.declare(&prototype.name, Symbol::Function(prototype));
            }
            ItemKind::ParserType(prototype) => self.declare(&prototype.name, Symbol::ParserType(prototype)),
            ItemKind::ControlType(prototype) => self.declare(&prototype.name, Symbol::ControlType(prototype)),
            ItemKind::Package(prototype) => self.declare(&prototype.name, Symbol::Package(prototype)),
            ItemKind::Parser(parser) => self.declare_parser(parser),
            ItemKind::Control(control) => self.declare_control(control),
            ItemKind::Action(action) => self.declare_action(action, None),
            ItemKind::Function(function) => self.declare_action(&function.body, Some(function)),
            ItemKind::Instance(instance) => self.top_instance(item, instance),
        }
    }

    fn declare_type(&mut self, name: &'a Ident, ty: Type) {
        self.declare(name, if ty == Type::Error { Symbol::Broken } else { Symbol::Type(ty) });
    }

    fn top_constant(&mut self, constant: &'a ast::Const) {
        let mut value = self.constant_value(constant);
        let given = self.overrides.iter().find(|(name, _)| **name == *constant.name.name).map(|(_, value)| *value);
        if let (Some(given), false) = (given, value.is_error()) {
            value = self.overridden(constant, value.ty, given);
        }
        if let (Type::Bool | Type::Bit(_) | Type::Int(_) | Type::Integer, Some(bits)) = (value.ty, bits_of(&value)) {
            self.constants.push((constant.name.name.to_string(), bits));
        }
        self.declare(&constant.name, if value.is_error() { Symbol::Broken } else { Symbol::Const(value) });
    }

    fn overridden(&mut self, constant: &'a ast::Const, ty: Type, given: u128) -> Typed {
        let span = constant.name.span;
        let simple = matches!(ty, Type::Bool | Type::Bit(_) | Type::Int(_) | Type::Integer);
        let value = if simple { self.given_constant(ty, given, span) } else { None };
        value.unwrap_or_else(|| {
            let name = &constant.name.name;
            let ty = self.types.display(ty);
            let message = if simple {
                format!("the value {given} given for the constant `{name}` does not fit in `{ty}`")
            } else {
                format!("the value of the constant `{name}` cannot be replaced")
            };
            self.error(span, message, &format!("it is of type `{ty}`"));
            Typed::error(span)
        })
    }

    fn declare_struct(&mut self, of: &'a ast::Struct, header: bool) {
        // In the check of a generic type each type argument is unknown.
        let bindings = of.type_parameters.iter().map(|parameter| (&*parameter.name, Some(Type::Error))).collect();
        let Some(ty) = self.structure(of, of.name.name.clone(), header, &bindings) else {
            return self.declare(&of.name, Symbol::Broken);
        };
        let symbol = if of.type_parameters.is_empty() {
            Symbol::Type(ty)
        } else {
            self.generics.push(super::Generic { of, header, made: Vec::new() });
            Symbol::Generic(self.generics.len() as u32 - 1)
        };
        self.declare(&of.name, symbol);
    }

    fn declare_enum(&mut self, of: &'a ast::Enum) {
        let representation = of.representation.as_ref().map(|ty| (self.stored_type(ty), ty.span));
        if let Some((ty, span)) = representation
            && !matches!(ty, Type::Bit(_) | Type::Int(_) | Type::Error)
        {
            let message = format!("an enum cannot have the underlying type `{}`", self.types.display(ty));
            self.error(span, message, "expected `bit<W>` or `int<W>`");
            return self.declare(&of.name, Symbol::Broken);
        }
        let representation = representation.map(|(ty, _)| ty);
        let mut members: Vec<(std::rc::Rc<str>, u128)> = Vec::new();
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for (number, (name, value)) in of.members.iter().enumerate() {
            if let Some(first) = seen.insert(&*name.name, name.span) {
                let what = Diagnostic::new(
                    name.span,
                    format!("the member `{}` is declared twice", name.name),
                    "declared again here",
                );
                self.report(what.with_related(first, "declared here first"));
                continue;
            }
            let bits = self.member_value(name, value.as_ref(), representation, number);
            members.push((name.name.clone(), bits.unwrap_or(0)));
        }
        let (width, signed) = match representation {
            Some(Type::Error) => return self.declare(&of.name, Symbol::Broken),
            Some(ty) => self.types.scalar(ty).unwrap_or((1, false)),
            None => (width_for(members.len()), false),
        };
        let number = self.types.enums.len() as u32;
        self.types.enums.push(EnumInfo { name: of.name.name.clone(), representation, width, signed, members });
        self.declare(&of.name, Symbol::Type(Type::Enum(number)));
    }

    fn member_value(
        &mut self, name: &'a Ident, value: Option<&'a ast::Expr>, representation: Option<Type>, number: usize,
    ) -> Option<u128> {
        match (value, representation) {
            (Some(value), Some(ty)) => {
                let value = self.discarded(|this| this.expression(value));
                self.known_scalar(value, ty, "the value of a member")
            }
            (None, None) => Some(number as u128),
            (None, Some(_)) => {
                let what = Diagnostic::new(
                    name.span,
                    format!("the member `{}` has no value", name.name),
                    "expected `= value`",
                );
                self.report(what.with_help("every member of an enum with an underlying type needs a value"));
                None
            }
            (Some(value), None) => {
                let what = Diagnostic::new(
                    value.span,
                    "a member of an enum without an underlying type cannot have a value",
                    "not allowed here",
                );
                self.report(what.with_help("give the enum an underlying type: `enum bit<8> NAME { ... }`"));
                None
            }
        }
    }

    /// Declares the constants of an `error` declaration. A program may have several such declarations, but each name
    /// may occur only once.
    fn check_errors(&mut self, names: &'a [Ident]) {
        for name in names {
            if let Some(first) = self.types.failures_at.insert(&name.name, name.span) {
                let what = Diagnostic::new(
                    name.span,
                    format!("the error `{}` is declared twice", name.name),
                    "declared again here",
                );
                self.report(what.with_related(first, "declared here first"));
            }
        }
    }

    fn top_instance(&mut self, item: &'a Item, instance: &'a ast::Instance) {
        let symbol = match self.instance_kind(instance) {
            Some(Symbol::Package(_)) => {
                if let Some(first) = self.main {
                    let what = Diagnostic::new(item.span, "a program has exactly one `main`", "a second one");
                    self.report(what.with_related(first.span, "the first one"));
                }
                self.main = self.main.or(Some(item));
                Symbol::Main
            }
            Some(Symbol::Type(Type::Extern(_))) => self.extern_object(instance, &instance.name.name),
            Some(Symbol::Control(_)) => {
                let instead = Some("instantiate the control within the control that applies it");
                self.unsupported(instance.name.span, "a control instantiated at the top level", instead);
                Symbol::Broken
            }
            _ => Symbol::Broken,
        };
        self.declare(&instance.name, symbol);
    }

    /// Returns the symbol of the extern or control that a declaration instantiates. Reports an error if the program
    /// cannot instantiate it.
    pub(super) fn instance_kind(&mut self, instance: &'a ast::Instance) -> Option<Symbol<'a>> {
        let TypeKind::Named { name, .. } = &instance.ty.kind else {
            let message = "a type of values cannot be instantiated: declare a variable";
            self.error(instance.ty.span, message, "not an extern, control or parser");
            return None;
        };
        let symbol = self.lookup(name);
        let package = matches!(symbol, Symbol::Package(_)) && self.scope == 0;
        if package || matches!(symbol, Symbol::Broken | Symbol::Control(_) | Symbol::Type(Type::Extern(_))) {
            return Some(symbol);
        }
        if let Symbol::Parser(_) = symbol {
            if self.context == super::Context::Parser {
                return Some(symbol);
            }
            let instead = "the packet's bytes pass the parser once: instantiate it within the parser";
            self.unsupported(name.span, "a parser instantiated outside of a parser", Some(instead));
            return None;
        }
        let message = format!("`{}` is {}: it cannot be instantiated", name.name, symbol.what());
        self.error(name.span, message, "not an extern, control or parser");
        None
    }

    /// Declares an extern object. `path` is the full name that the object gets in the checked program.
    pub(super) fn extern_object(&mut self, instance: &'a ast::Instance, path: &str) -> Symbol<'a> {
        let TypeKind::Named { name, arguments: types } = &instance.ty.kind else { return Symbol::Broken };
        let Symbol::Type(Type::Extern(number)) = self.lookup(name) else { return Symbol::Broken };
        let of = self.types.externs[number as usize];
        let before = self.errors.len();
        let Some(types) = self.object_types(of, types, instance) else { return Symbol::Broken };
        let fitting = of.constructors.iter().find(|c| c.parameters.len() == instance.arguments.len());
        let Some(constructor) = fitting.or(of.constructors.first()) else {
            let message = format!("a program cannot instantiate `{}`", of.name.name);
            self.error(instance.ty.span, message, "the architecture provides this object");
            return Symbol::Broken;
        };
        let parameters: Vec<&ast::Parameter> = constructor.parameters.iter().collect();
        let bound = self.bind(&of.name.name, &parameters, &instance.arguments, instance.name.span);
        let Some(bound) = bound else { return Symbol::Broken };
        let mut arguments = Vec::new();
        for (parameter, argument) in parameters.iter().zip(bound) {
            let ty = self.type_of(&parameter.ty);
            let value = self.discarded(|this| this.argument(argument));
            arguments.extend(self.known_scalar(value, ty, "a constructor's argument"));
        }
        if self.errors.len() > before {
            return Symbol::Broken;
        }
        let widths = types.iter().flat_map(|ty| self.types.leaves(*ty, "")).map(|leaf| leaf.width).collect();
        let made = self.instances.len() as u32;
        self.instances.push(hir::Instance {
            name: path.to_string(),
            kind: of.name.name.to_string(),
            types: widths,
            arguments,
            span: instance.name.span,
        });
        Symbol::Extern(ExternObject { of: number, types, instance: made })
    }

    fn object_types(
        &mut self, of: &'a ast::Extern, given: &'a [ast::Type], instance: &ast::Instance,
    ) -> Option<Vec<Type>> {
        if given.len() != of.type_parameters.len() {
            let expected = super::convert::count(of.type_parameters.len(), "type argument");
            let message = format!("`{}` takes {expected}, found {}", of.name.name, given.len());
            let what = Diagnostic::new(instance.ty.span, message, "wrong number of type arguments");
            self.report(match of.type_parameters.len() {
                1 => what
                    .with_help(format!("write, for example, `{}<bit<32>>(...) {};`", of.name.name, instance.name.name)),
                _ => what,
            });
            return None;
        }
        let mut types = Vec::new();
        for given in given {
            let ty = self.stored_type(given);
            if self.types.has_header(ty) || (self.types.size(ty) == 0 && ty != Type::Error) {
                let message = format!("an extern object cannot hold `{}`", self.types.display(ty));
                self.error(given.span, message, "expected a scalar, or a struct of scalars");
            }
            types.push(ty);
        }
        (!types.contains(&Type::Error)).then_some(types)
    }
}

/// Returns the bits of a scalar value in two's complement; `None` for a negative value of type `int`.
fn bits_of(value: &Typed) -> Option<u128> {
    match &value.value {
        super::typed::Value::Integer(number) => number.to_bits(128, false),
        super::typed::Value::Scalars(scalars) => scalars.first().and_then(fold::known),
        _ => None,
    }
}
