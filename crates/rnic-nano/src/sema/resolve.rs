//! Part of the semantic analysis of P4: resolves the types in the source text, such as `bit<8>` or a name, to
//! [`Type`]s.

use super::types::{FieldInfo, Shape, StructInfo, Type};
use super::{Analyser, Symbol};
use crate::ast::{self, Expr, ExprKind, TypeKind};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use std::collections::BTreeMap;
use std::rc::Rc;

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
                    if let Some(argument) = arguments.first() {
                        let message = format!("`{}` is a type parameter", name.name);
                        self.error(argument.span, message, "takes no type arguments");
                    }
                    return bound.unwrap_or(Type::Error);
                }
                let symbol = self.lookup(name);
                self.named(name, symbol, arguments, bindings)
            }
            TypeKind::Stack(of, size) => self.stack_type(of, size, bindings),
            TypeKind::Tuple(of) => {
                let members: Vec<Type> = of.iter().map(|ty| self.stored_with(ty, bindings)).collect();
                let names: Vec<String> = members.iter().map(|ty| self.types.display(*ty)).collect();
                self.composite(format!("tuple<{}>", names.join(", ")), Shape::Tuple, &members, ty.span)
            }
        }
    }

    fn named(
        &mut self, name: &ast::Ident, symbol: Symbol<'a>, arguments: &'a [ast::Type], bindings: &Bindings<'a>,
    ) -> Type {
        match symbol {
            Symbol::Broken => Type::Error,
            Symbol::Generic(number) => self.specialised(number, name, arguments, bindings),
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

    /// A header stack: `T[size]`.
    fn stack_type(&mut self, of: &'a ast::Type, size: &'a Expr, bindings: &Bindings<'a>) -> Type {
        let element = self.type_with(of, bindings);
        let Some(number) = self.constant_integer(size, "the number of elements") else { return Type::Error };
        let Some(count @ 1..=MAX_STACK) = number.to_u32() else {
            let what = Diagnostic::new(size.span, format!("a stack of {number} headers"), "out of range");
            self.report(what.with_help(format!("1 to {MAX_STACK} elements: each has wires of its own")));
            return Type::Error;
        };
        match element {
            Type::Header(_) | Type::Error => {}
            ty => {
                let what = format!("an array of `{}`", self.types.display(ty));
                self.unsupported(of.span, &what, Some("declare a stack of headers, a struct, or registers"));
                return Type::Error;
            }
        }
        let name = format!("{}[{count}]", self.types.display(element));
        self.composite(name, Shape::Stack, &vec![element; count as usize], of.span)
    }

    /// The type with the fields `[0]`, `[1]` and so on, which have the given types.
    fn composite(&mut self, name: String, shape: Shape, members: &[Type], span: Span) -> Type {
        self.search(self.types.structs.len() + members.len(), span);
        if members.contains(&Type::Error) || self.stopped {
            return Type::Error;
        }
        let same = |info: &StructInfo| {
            info.shape == shape && info.fields.iter().map(|field| field.ty).eq(members.iter().copied())
        };
        if let Some(number) = self.types.structs.iter().position(same) {
            return Type::Struct(number as u32);
        }
        let mut info =
            StructInfo { name: name.into(), shape, span, fields: Vec::new(), size: 0, bits: 0, depth: 1, parts: 1 };
        for (number, ty) in members.iter().enumerate() {
            if !self.append(&mut info, FieldInfo { name: format!("[{number}]").into(), ty: *ty, offset: 0 }, span) {
                return Type::Error;
            }
        }
        self.types.structs.push(info);
        Type::Struct(self.types.structs.len() as u32 - 1)
    }

    /// A generic struct or header type with type arguments.
    fn specialised(
        &mut self, number: u32, name: &ast::Ident, arguments: &'a [ast::Type], bindings: &Bindings<'a>,
    ) -> Type {
        let of = self.generics[number as usize].of;
        let header = self.generics[number as usize].header;
        if arguments.len() != of.type_parameters.len() {
            let expected = super::convert::count(of.type_parameters.len(), "type argument");
            let message = format!("`{}` takes {expected}, found {}", name.name, arguments.len());
            let what = Diagnostic::new(name.span, message, "wrong number of type arguments");
            self.report(what.with_help(format!("write, for example, `{}<bit<32>>`", name.name)));
            return Type::Error;
        }
        let types: Vec<Type> = arguments.iter().map(|ty| self.stored_with(ty, bindings)).collect();
        if types.contains(&Type::Error) {
            return Type::Error;
        }
        let made = &self.generics[number as usize].made;
        self.spend(made.len() as u32 / 16, name.span);
        let made = &self.generics[number as usize].made;
        if let Some((_, ty)) = made.iter().find(|(given, _)| *given == types) {
            return *ty;
        }
        let names: Vec<String> = types.iter().map(|ty| self.types.display(*ty)).collect();
        let full: Rc<str> = format!("{}<{}>", of.name.name, names.join(", ")).into();
        let parameters = of.type_parameters.iter().map(|parameter| &*parameter.name);
        let bindings = parameters.zip(types.iter().map(|ty| Some(*ty))).collect();
        // The fields are those of the declaration, at the top level.
        let scope = std::mem::replace(&mut self.scope, 0);
        let ty = self.structure(of, full, header, &bindings).unwrap_or(Type::Error);
        self.scope = scope;
        self.generics[number as usize].made.push((types, ty));
        ty
    }

    /// Creates the type of a declared struct or header.
    pub(super) fn structure(
        &mut self, of: &'a ast::Struct, name: Rc<str>, header: bool, bindings: &Bindings<'a>,
    ) -> Option<Type> {
        let mut info = self.fields(&of.fields, header, bindings)?;
        (info.name, info.span) = (name, of.name.span);
        if header && info.bits % 8 != 0 {
            let message =
                format!("the header `{}` has {} bits, which is not a whole number of bytes", info.name, info.bits);
            let missing = super::convert::count(8 - (info.bits % 8) as usize, "bit");
            let what = Diagnostic::new(of.name.span, message, format!("{missing} missing"));
            self.report(what.with_help(format!("add a padding field: `bit<{}> reserved;`", 8 - info.bits % 8)));
        }
        let number = self.types.structs.len() as u32;
        self.types.structs.push(info);
        Some(if header { Type::Header(number) } else { Type::Struct(number) })
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
        let top = top?;
        let span = high.span.to(low.span);
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
    fn fields(&mut self, fields: &'a [ast::Field], header: bool, bindings: &Bindings<'a>) -> Option<StructInfo> {
        let mut info = StructInfo {
            name: "".into(),
            shape: Shape::Fields,
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
            let ty = self.field_type(field, header, bindings);
            whole &= ty != Type::Error;
            let info_of = FieldInfo { name: field.name.name.clone(), ty, offset: 0 };
            if !self.append(&mut info, info_of, field.name.span) {
                return None;
            }
        }
        // If a field has an error, the struct keeps its other fields, but its size is unknown.
        if !whole {
            info.bits = 0;
        }
        Some(info)
    }

    /// Appends a field to a type. Returns false and reports an error if the type becomes too large.
    fn append(&mut self, info: &mut StructInfo, field: FieldInfo, span: Span) -> bool {
        let ty = field.ty;
        info.fields.push(FieldInfo { offset: info.size, ..field });
        info.size = info.size.saturating_add(self.types.size(ty));
        info.bits = info.bits.saturating_add(self.types.bits(ty));
        info.depth = info.depth.max(1 + self.types.info(ty).map_or(0, |inner| inner.depth));
        info.parts = info.parts.saturating_add(self.types.info(ty).map_or(1, |inner| inner.parts));
        let fits = info.depth <= MAX_STRUCT_DEPTH && info.parts <= MAX_FIELDS;
        if !fits {
            let message =
                format!("a struct has at most {MAX_FIELDS} scalars and {MAX_STRUCT_DEPTH} levels of nested structs");
            self.error(span, message, "exceeded by this field");
        }
        fits
    }

    fn field_type(&mut self, field: &'a ast::Field, header: bool, bindings: &Bindings<'a>) -> Type {
        let ty = self.stored_with(&field.ty, bindings);
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

/// Maximum number of elements of a header stack.
const MAX_STACK: u32 = 64;
/// Maximum nesting depth of structs in a program.
const MAX_STRUCT_DEPTH: u32 = 32;
/// Maximum number of scalars in a struct, including the scalars of its inner structs.
const MAX_FIELDS: u32 = 65_536;
