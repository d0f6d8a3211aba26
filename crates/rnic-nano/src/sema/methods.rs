//! Part of the semantic analysis of P4: translates calls of methods of headers, packets, tables and extern objects.

use super::call::{Callee, Want};
use super::integer::Integer;
use super::scope::ExternObject;
use super::table::TableInfoId;
use super::typed::{Typed, Value};
use super::types::Type;
use super::{Analyser, Context, Symbol, fold};
use crate::ast::{self, Argument, Expr, ExprKind, Ident};
use crate::diagnostic::{Diagnostic, nearest};
use crate::hir::{SlotId, Stmt};
use crate::source::Span;

/// The part of a table application's result that the program uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Applied {
    Nothing,
    Hit,
    Miss,
    ActionRun,
}

impl<'a> Analyser<'a> {
    /// Translates a method call: `base.method<types>(arguments)`.
    pub(super) fn method(
        &mut self, base: &'a Expr, method: &'a Ident, types: &'a [ast::Type], arguments: &'a [Argument], span: Span,
        want: Want,
    ) -> Typed {
        let symbol = match &base.kind {
            ExprKind::Name(name) => self.find(&name.name).cloned(),
            ExprKind::TopName(name) => self.find_top(&name.name).cloned(),
            _ => None,
        };
        match symbol {
            Some(Symbol::Extern(object)) => self.object_method(&object, method, types, arguments, span, want),
            Some(Symbol::Object(number)) => self.packet_method(number, method, types, arguments, span),
            Some(Symbol::Table(number)) => {
                if &*method.name != "apply" {
                    self.no_such_method("a table", method, &["apply"]);
                    return Typed::error(span);
                }
                self.apply_table(number, arguments, Applied::Nothing, span)
            }
            Some(Symbol::Instance(number)) => {
                if &*method.name != "apply" {
                    self.no_such_method("a control", method, &["apply"]);
                    return Typed::error(span);
                }
                self.apply_control(number, arguments, span)
            }
            Some(Symbol::SubParser(..)) => {
                let what = Diagnostic::new(span, "a parser is applied in a statement of a state", "not allowed here");
                self.report(what.with_help("write it outside of blocks and branches: it has states of its own"));
                Typed::error(span)
            }
            _ => self.value_method(base, method, arguments, span),
        }
    }

    fn no_such_method(&mut self, of: &str, method: &Ident, names: &[&str]) {
        let help = match nearest(&method.name, names.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => super::scope::list_of_names(names),
        };
        let message = format!("{of} has no method `{}`", method.name);
        self.report(Diagnostic::new(method.span, message, "unknown method").with_help(help));
    }

    fn object_method(
        &mut self, object: &ExternObject, method: &'a Ident, types: &'a [ast::Type], arguments: &'a [Argument],
        span: Span, want: Want,
    ) -> Typed {
        let of = self.types.externs[object.of as usize];
        let named: Vec<_> = of.methods.iter().filter(|prototype| prototype.name.name == method.name).collect();
        let fitting = named.iter().find(|prototype| prototype.parameters.len() == arguments.len());
        let Some(prototype) = fitting.or(named.first()).copied() else {
            let names: Vec<&str> = of.methods.iter().map(|prototype| &*prototype.name.name).collect();
            self.no_such_method(&format!("`{}`", of.name.name), method, &names);
            return Typed::error(span);
        };
        let types_of = of.type_parameters.iter().map(|parameter| &*parameter.name);
        let bindings = types_of.zip(object.types.iter().map(|ty| Some(*ty))).collect();
        self.call_extern(Callee { prototype, instance: Some(object.instance), bindings }, types, arguments, span, want)
    }

    /// Translates a method of `packet_in` or `packet_out`, such as `extract` or `emit`.
    fn packet_method(
        &mut self, number: u32, method: &'a Ident, types: &'a [ast::Type], arguments: &'a [Argument], span: Span,
    ) -> Typed {
        let of = self.types.externs[number as usize];
        if !of.methods.iter().any(|prototype| prototype.name.name == method.name) {
            let names: Vec<&str> = of.methods.iter().map(|prototype| &*prototype.name.name).collect();
            self.no_such_method(&format!("`{}`", of.name.name), method, &names);
            return Typed::error(span);
        }
        if &*method.name == "lookahead" {
            return self.lookahead(types, arguments, span);
        }
        if &*method.name == "length" {
            let instead = "the pipeline sees the headers only: `arrival_t.frame_bytes` has the size of the frame";
            self.unsupported(method.span, "`packet_in.length`", Some(instead));
            return Typed::error(span);
        }
        if let ("extract", [_, _]) = (&*method.name, arguments) {
            let instead =
                "the fields behind it would have no fixed wires: use headers of fixed size, one for each size";
            self.unsupported(span, "`extract` of a header with a variable size", Some(instead));
            return Typed::error(span);
        }
        let [Argument { value: Some(argument), .. }] = arguments else {
            self.error(span, format!("`{}` takes 1 argument", method.name), "wrong number of arguments");
            return Typed::error(span);
        };
        for ty in types.iter().filter(|ty| ty.kind != ast::TypeKind::Any) {
            let expected = self.type_of(ty);
            let found = self.lvalue_of(argument).map_or(Type::Error, |lvalue| lvalue.ty);
            if expected != found && expected != Type::Error && found != Type::Error {
                let message =
                    format!("expected `{}`, found `{}`", self.types.display(expected), self.types.display(found));
                self.error(argument.span, message, "differs from the type argument of the call");
            }
        }
        match &*method.name {
            "extract" => self.extract(argument, span),
            "advance" => self.advance(argument, span),
            "emit" => self.emit_headers(argument, span),
            name => self.unsupported(method.span, &format!("`{}.{name}`", of.name.name), None),
        }
        Typed { ty: Type::Void, value: Value::Nothing, span }
    }

    fn extract(&mut self, argument: &'a Expr, span: Span) {
        let Some(lvalue) = self.writable_lvalue(argument) else { return };
        if self.pipe.overflow {
            return;
        }
        let (Type::Header(_), Some(&header)) = (lvalue.ty, self.pipe.header_at.get(&SlotId(lvalue.slot))) else {
            let message = format!("`extract` takes a header, not `{}`", self.types.display(lvalue.ty));
            return self.error(argument.span, message, "not a header");
        };
        self.emit(Stmt::Extract(header), span);
        self.count_next(argument);
    }

    /// Translates `packet.lookahead<T>()`: the next bits of the packet as a value of type T, without consuming them.
    fn lookahead(&mut self, types: &'a [ast::Type], arguments: &'a [Argument], span: Span) -> Typed {
        let ([given], []) = (types, arguments) else {
            let what = Diagnostic::new(span, "`lookahead` takes a type and no arguments", "wrong arguments");
            self.report(what.with_help("write `packet.lookahead<bit<16>>()`"));
            return Typed::error(span);
        };
        let ty = self.stored_type(given);
        if ty == Type::Error {
            return Typed::error(span);
        }
        let leaves = self.types.leaves(ty, "");
        let known = |ty: Type| {
            matches!(ty, Type::Failure)
                || matches!(ty, Type::Enum(number) if self.types.enums[number as usize].representation.is_none())
        };
        let stack = self.types.shape(ty) == Some(super::types::Shape::Stack);
        if known(ty) || stack || self.types.bits(ty) == 0 {
            let message = format!("`lookahead` cannot read `{}`", self.types.display(ty));
            self.error(given.span, message, "expected a number, a `bool`, a header, or a struct of them");
            return Typed::error(span);
        }
        let result = self.temporary(ty, "lookahead", span);
        if self.stopped {
            return Typed::error(span);
        }
        let slots = (result.slot..).zip(&leaves);
        let (valid, bits): (Vec<_>, Vec<_>) = slots.partition(|(_, leaf)| leaf.header.is_some());
        self.emit(Stmt::Lookahead(bits.into_iter().map(|(slot, _)| SlotId(slot)).collect()), span);
        for (slot, _) in valid {
            self.emit(Stmt::Assign { slot: SlotId(slot), value: fold::constant(1, 1) }, span);
        }
        self.read(result, span)
    }

    fn advance(&mut self, argument: &'a Expr, span: Span) {
        let Some(bits) = self.constant_integer(argument, "the number of bits to skip") else { return };
        match bits.to_u32() {
            Some(bits) if bits % 8 == 0 => self.emit(Stmt::Advance(bits), span),
            _ => self.error(argument.span, format!("cannot skip {bits} bits"), "expected a multiple of 8"),
        }
    }

    fn emit_headers(&mut self, argument: &'a Expr, span: Span) {
        let Some(lvalue) = self.lvalue_of(argument) else {
            let value = self.discarded(|this| this.expression(argument));
            if !value.is_error() {
                self.unsupported(
                    argument.span,
                    "`emit` of an expression that is not a variable",
                    Some("assign the value to a variable first"),
                );
            }
            return;
        };
        if lvalue.ty == Type::Error {
            return;
        }
        if !self.emit_lvalue(lvalue, span) {
            let message =
                format!("`emit` takes a header or a struct of headers, not `{}`", self.types.display(lvalue.ty));
            self.error(argument.span, message, "contains other fields than headers");
        }
    }

    /// Translates `emit` for an lvalue: emits all headers in it. Returns false if the lvalue contains fields that are
    /// not headers.
    fn emit_lvalue(&mut self, lvalue: super::lvalue::LValue, span: Span) -> bool {
        match lvalue.ty {
            Type::Error => true,
            Type::Header(_) => {
                if let Some(&header) = self.pipe.header_at.get(&SlotId(lvalue.slot)) {
                    self.emit(Stmt::Emit(header), span);
                }
                true
            }
            Type::Struct(number) => {
                let fields = self.types.structs[number as usize].fields.iter().map(|field| (field.ty, field.offset));
                let fields: Vec<_> = fields.collect();
                fields.into_iter().all(|(ty, offset)| {
                    self.emit_lvalue(super::lvalue::LValue { ty, slot: lvalue.slot + offset, ..lvalue }, span)
                })
            }
            _ => false,
        }
    }

    /// Translates a method of a header or struct, such as `isValid`.
    fn value_method(&mut self, base: &'a Expr, method: &'a Ident, arguments: &'a [Argument], span: Span) -> Typed {
        let known =
            ["isValid", "setValid", "setInvalid", "minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"];
        let lvalue = self.lvalue_of(base);
        let ty = match (lvalue, self.named_type(base)) {
            (Some(lvalue), _) => lvalue.ty,
            (None, Some(ty)) => ty,
            (None, None) => self.discarded(|this| this.expression(base)).ty,
        };
        if ty == Type::Error {
            return Typed::error(span);
        }
        if let (Some(lvalue), Some(super::types::Shape::Stack)) = (lvalue, self.types.shape(ty))
            && matches!(&*method.name, "push_front" | "pop_front")
        {
            return self.shift_stack(lvalue, base, method, arguments, span);
        }
        let header = matches!(ty, Type::Header(_));
        let names = if header { &known[..] } else { &known[3..] };
        if !names.contains(&&*method.name) || self.types.bits(ty) == 0 && !header {
            let names = if self.types.bits(ty) == 0 { &[][..] } else { names };
            self.no_such_method(&format!("`{}`", self.types.display(ty)), method, names);
            return Typed::error(span);
        }
        if !arguments.is_empty() {
            self.error(span, format!("`{}` takes no arguments", method.name), "wrong number of arguments");
            return Typed::error(span);
        }
        let bits = u128::from(self.types.bits(ty));
        match &*method.name {
            "isValid" => match self.expression(base).value {
                Value::Scalars(mut scalars) => Typed::scalar(Type::Bool, scalars.swap_remove(0), span),
                _ => Typed::error(span),
            },
            "setValid" => self.set_valid(base, 1, span),
            "setInvalid" => self.set_valid(base, 0, span),
            "minSizeInBits" | "maxSizeInBits" => Typed::integer(Integer::new(false, bits), span),
            _ => Typed::integer(Integer::new(false, bits.div_ceil(8)), span),
        }
    }

    fn set_valid(&mut self, base: &'a Expr, valid: u128, span: Span) -> Typed {
        if self.variable_index(base).is_some() {
            self.each_element(base, span, |this, lvalue| {
                this.emit(Stmt::Assign { slot: SlotId(lvalue.slot), value: fold::constant(valid, 1) }, span);
            });
        } else if let Some(lvalue) = self.writable_lvalue(base) {
            if valid == 1 {
                self.pipe.notes.validated.push((SlotId(lvalue.slot), span));
            }
            self.emit(Stmt::Assign { slot: SlotId(lvalue.slot), value: fold::constant(valid, 1) }, span);
        }
        Typed { ty: Type::Void, value: Value::Nothing, span }
    }

    /// Translates `table.apply().hit` and `table.apply().miss`. Returns `None` if the expression is neither of these.
    pub(super) fn apply_member(&mut self, base: &'a Expr, member: &'a Ident, span: Span) -> Option<Typed> {
        let (number, arguments) = self.table_application(base)?;
        match &*member.name {
            "hit" => Some(self.apply_table(number, arguments, Applied::Hit, span)),
            "miss" => Some(self.apply_table(number, arguments, Applied::Miss, span)),
            "action_run" => {
                self.unsupported(
                    span,
                    "`action_run` outside of a `switch`",
                    Some("write `switch (table.apply().action_run) { ... }`"),
                );
                Some(Typed::error(span))
            }
            _ => {
                let message = format!("the result of a table has no member `{}`", member.name);
                let what = Diagnostic::new(member.span, message, "unknown member");
                self.report(what.with_help("available: hit, miss, action_run"));
                Some(Typed::error(span))
            }
        }
    }

    /// If an expression has the form `table.apply(arguments)`, returns the table and the arguments.
    pub(super) fn table_application(&self, expr: &'a Expr) -> Option<(TableInfoId, &'a [Argument])> {
        let ExprKind::Call { function, arguments, .. } = &expr.kind else { return None };
        let ExprKind::Member(table, method) = &function.kind else { return None };
        let ExprKind::Name(name) = &table.kind else { return None };
        match self.find(&name.name) {
            Some(Symbol::Table(number)) if &*method.name == "apply" => Some((*number, arguments)),
            _ => None,
        }
    }

    /// Translates the application of a table. The returned value is a `bool` for `hit` and `miss`, and the index of the
    /// action for `action_run`.
    pub(super) fn apply_table(
        &mut self, number: TableInfoId, arguments: &[Argument], wanted: Applied, span: Span,
    ) -> Typed {
        if self.context != Context::Control {
            self.error(span, "a table can only be applied in the `apply` block of a control", "not allowed here");
            return Typed::error(span);
        }
        if !arguments.is_empty() {
            self.error(span, "a table's `apply` takes no arguments", "wrong number of arguments");
        }
        let info = &self.tables[number.0];
        let Some(table) = info.table else { return Typed::error(span) };
        let ty = match wanted {
            Applied::Nothing => {
                self.emit(Stmt::Apply { table, hit: None, action: None }, span);
                return Typed { ty: Type::Void, value: Value::Nothing, span };
            }
            Applied::Hit | Applied::Miss => Type::Bool,
            Applied::ActionRun => Type::Bit(super::types::width_for(info.actions.len() + 1)),
        };
        let result = self.temporary(ty, "apply", span);
        if self.stopped {
            return Typed::error(span);
        }
        let slot = Some(SlotId(result.slot));
        let (hit, action) = if wanted == Applied::ActionRun { (None, slot) } else { (slot, None) };
        self.emit(Stmt::Apply { table, hit, action }, span);
        let value = self.slot(result.slot);
        Typed::scalar(ty, if wanted == Applied::Miss { fold::not(value) } else { value }, span)
    }
}
