//! Part of the semantic analysis of P4: resolves the types in the source text, such as `bit<8>` or a name, to
//! [`Type`]s.

use super::types::Type;
use super::{Analyser, Symbol};
use crate::ast::{self, Expr, ExprKind, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use std::collections::BTreeMap;

/// The types that are bound to type parameters, by the name of the type parameter. `None` means that the type has not
/// been inferred yet.
pub(super) type Bindings<'a> = Vec<(&'a str, Option<Type>)>;

impl<'a> Analyser<'a> {
    /// Resolves a type. Names of type parameters are not allowed.
    pub(super) fn type_of(&mut self, ty: &'a ast::Type) -> Type {
        self.type_with(ty, &Vec::new())
    }

    /// Resolves a type. Names may also be the type parameters in `bindings`.
    pub(super) fn type_with(&mut self, ty: &'a ast::Type, bindings: &Bindings<'a>) -> Type {
        match &ty.kind {
            TypeKind::Bool => Type::Bool,
            TypeKind::Bit(width) => self.width(width).map_or(Type::Error, Type::Bit),
            TypeKind::Int(width) => self.width(width).map_or(Type::Error, Type::Int),
            TypeKind::Integer => Type::Integer,
            TypeKind::Error => Type::Failure,
            TypeKind::Any => {
                self.unsupported(ty.span, "`_` as a type here", Some("write the type"));
                Type::Error
            }
            TypeKind::Named { name, arguments } => {
                if let Some((_, bound)) = bindings.iter().find(|(parameter, _)| **parameter == *name.name) {
                    return bound.unwrap_or(Type::Error);
                }
                let symbol = self.lookup(name);
                self.named(name, symbol, arguments)
            }
        }
    }

    fn named(&mut self, name: &ast::Ident, symbol: Symbol<'a>, arguments: &[ast::Type]) -> Type {
        match symbol {
            Symbol::Broken => Type::Error,
            Symbol::Type(ty) if arguments.is_empty() => ty,
            Symbol::Type(_) => {
                self.error(name.span, format!("`{}` has no type parameters", name.name), "takes no type arguments");
                Type::Error
            }
            other => {
                let message = format!("`{}` is {}, not the type of a value", name.name, other.what());
                self.error(name.span, message, "expected the type of a value");
                Type::Error
            }
        }
    }

    /// Resolves a type for a variable, field or parameter. Such a type cannot be `int` or an extern type.
    pub(super) fn stored_type(&mut self, ty: &'a ast::Type) -> Type {
        self.stored_with(ty, &Vec::new())
    }

    /// Resolves a type like [`Self::stored_type`]. Names may also be the type parameters in `bindings`.
    fn stored_with(&mut self, ty: &'a ast::Type, bindings: &Bindings<'a>) -> Type {
        match self.type_with(ty, bindings) {
            Type::Integer => {
                let what =
                    Diagnostic::new(ty.span, "`int` has no width: only constants can have this type", "no width");
                self.report(what.with_help("write a width: `int<32>` or `bit<32>`"));
                Type::Error
            }
            Type::Extern(number) => {
                let name = self.types.externs[number as usize].name.name.clone();
                self.error(ty.span, format!("`{name}` is an object, not a value"), "expected the type of a value");
                Type::Error
            }
            other => other,
        }
    }

    /// Checks the types in the signature of an extern function or method. For a method, `outer` has the type parameters
    /// of its extern type.
    pub(super) fn check_prototype(&mut self, prototype: &'a ast::Prototype, outer: &'a [ast::Ident]) {
        let open = outer.iter().chain(&prototype.type_parameters);
        let bindings = open.map(|parameter| (&*parameter.name, Some(Type::Error))).collect();
        for ty in prototype.result.iter().chain(prototype.parameters.iter().map(|parameter| &parameter.ty)) {
            self.stored_with(ty, &bindings);
        }
    }

    /// Evaluates the width of a `bit` or `int` type, in bits.
    fn width(&mut self, width: &'a Expr) -> Option<u32> {
        let value = self.constant_integer(width, "a width")?;
        match value.to_u32() {
            Some(bits @ 1..=128) => Some(bits),
            _ => {
                let wide = Diagnostic::new(width.span, format!("the width {value} is out of range"), "1 to 128 bits");
                let help = "split a larger value into several fields";
                self.report(wide.with_help(help));
                None
            }
        }
    }

    /// Evaluates an expression that must be a compile-time integer. `what` describes the expression in error messages.
    pub(super) fn constant_integer(&mut self, expr: &'a Expr, what: &str) -> Option<super::integer::Integer> {
        let value = self.discarded(|this| this.expression(expr));
        if value.is_error() {
            return None;
        }
        let number = value.as_integer();
        if number.is_none() {
            let (message, label) = match value.ty {
                Type::Bit(_) | Type::Int(_) => (format!("{what} must be a compile-time constant"), "not a constant"),
                ty => (format!("{what} must be a number, not `{}`", self.types.display(ty)), "not a number"),
            };
            self.error(expr.span, message, label);
        }
        number
    }

    /// Evaluates the bounds of a slice of a value that has `width` bits. Returns the index of the lowest bit, and the
    /// number of bits.
    pub(super) fn slice_bounds(&mut self, width: u32, high: &'a Expr, low: &'a Expr) -> Option<(u32, u32)> {
        let top = self.constant_integer(high, "a bound of a slice");
        let bottom = self.constant_integer(low, "a bound of a slice")?;
        let (top, span) = (top?, high.span.to(low.span));
        match (top.to_u32(), bottom.to_u32()) {
            (Some(top), Some(bottom)) if bottom <= top && top < width => Some((bottom, top - bottom + 1)),
            _ => {
                let message = format!("[{top}:{bottom}] is not a slice of a {width}-bit value");
                let help = format!("a slice is [highest:lowest]; all bits are [{}:0]", width - 1);
                self.report(Diagnostic::new(span, message, "out of range").with_help(help));
                None
            }
        }
    }

    /// Resolves the fields of a header type or struct type.
    pub(super) fn fields(&mut self, fields: &'a [ast::Field], header: bool) -> Option<super::types::StructInfo> {
        let mut info = super::types::StructInfo {
            name: "".into(),
            span: Span::default(),
            fields: Vec::new(),
            size: u32::from(header),
            bits: 0,
            depth: 1,
            parts: 1,
        };
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        let mut whole = true;
        for field in fields {
            if let Some(first) = seen.insert(&field.name.name, field.name.span) {
                let twice = Diagnostic::new(
                    field.name.span,
                    format!("the field `{}` is declared twice", field.name.name),
                    "declared again here",
                );
                self.report(twice.with_related(first, "declared here first"));
                continue;
            }
            let ty = self.field_type(field, header);
            whole &= ty != Type::Error;
            info.fields.push(super::types::FieldInfo { name: field.name.name.clone(), ty, offset: info.size });
            info.size = info.size.saturating_add(self.types.size(ty));
            info.bits = info.bits.saturating_add(self.types.bits(ty));
            info.depth = info.depth.max(1 + self.types.info(ty).map_or(0, |inner| inner.depth));
            info.parts = info.parts.saturating_add(self.types.info(ty).map_or(1, |inner| inner.parts));
            if info.depth > MAX_STRUCT_DEPTH || info.parts > MAX_FIELDS {
                let message = format!(
                    "a struct has at most {MAX_FIELDS} scalars and {MAX_STRUCT_DEPTH} levels of nested structs"
                );
                self.error(field.name.span, message, "exceeded by this field");
                return None;
            }
        }
        // If a field has an error, the struct keeps its other fields, but its size is unknown.
        if !whole {
            info.bits = 0;
        }
        Some(info)
    }

    fn field_type(&mut self, field: &'a ast::Field, header: bool) -> Type {
        let ty = self.stored_type(&field.ty);
        let fits = match ty {
            Type::Enum(number) => self.types.enums[number as usize].representation.is_some(),
            Type::Header(_) | Type::Struct(_) | Type::Failure => false,
            _ => true,
        };
        if header && !fits {
            let message = format!("a header cannot have a field of type `{}`", self.types.display(ty));
            let help = match ty {
                Type::Enum(_) => "give the enum an underlying type: `enum bit<8> NAME { A = 0 }`",
                _ => {
                    "header fields are `bit`, `int`, `bool` or an enum with an underlying type; put headers into a struct"
                }
            };
            self.report(Diagnostic::new(field.ty.span, message, "not allowed in a header").with_help(help));
            return Type::Error;
        }
        ty
    }

    /// Returns the type that an expression names, such as `TYPE` in `TYPE.MEMBER`; `None` if the expression does not
    /// name a type.
    pub(super) fn named_type(&self, expr: &Expr) -> Option<Type> {
        let symbol = match &expr.kind {
            ExprKind::Name(name) if &*name.name == "error" => return Some(Type::Failure),
            ExprKind::Name(name) => self.find(&name.name)?,
            ExprKind::TopName(name) => self.find_top(&name.name)?,
            _ => return None,
        };
        match symbol {
            Symbol::Type(ty) => Some(*ty),
            _ => None,
        }
    }
}

/// Maximum nesting depth of structs in a program.
const MAX_STRUCT_DEPTH: u32 = 32;
/// Maximum number of scalars in a struct, including the scalars of its inner structs.
const MAX_FIELDS: u32 = 65_536;
