//! Tests of the parser, with accepted programs and with the recorded error messages of rejected programs.
//!
//! The programs `rejected/syntax-*.p4` have errors. For each program, the `.txt` file of the same name holds the
//! expected error messages. After an intended change of messages, `cargo test -p rnic-nano --test tests syntax --
//! --ignored` rewrites these files; review their differences.

use rnic_nano::ast::{Argument, BinaryOp, Expr, ExprKind, ItemKind, Module, TypeKind, UnaryOp};
use rnic_nano::diagnostic::Diagnostic;
use rnic_nano::parser::parse_program;
use rnic_nano::source::{SourceFile, SourceMap};
use std::fs;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn render(errors: &[Diagnostic], sources: &SourceMap) -> String {
    errors.iter().map(|error| error.render(sources)).collect::<Vec<_>>().join("\n")
}

fn parse(text: &str) -> Result<(Module, SourceMap), String> {
    let main = SourceFile { name: "program.p4".into(), text: text.into() };
    parse_program(main, &|_| None).map_err(|(errors, sources)| render(&errors, &sources))
}

/// Returns the parser's error messages for a program in the folder `rejected`.
fn error_messages(path: &Path) -> String {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let main = SourceFile { name, text: fs::read_to_string(path).unwrap() };
    let include = |name: &str| fs::read_to_string(path.with_file_name(name)).ok();
    match parse_program(main, &include) {
        Ok(_) => String::new(),
        Err((errors, sources)) => render(&errors, &sources),
    }
}

fn rejected() -> Vec<PathBuf> {
    let files = fs::read_dir(folder("rejected")).unwrap().map(|entry| entry.unwrap().path());
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("syntax-") && name.ends_with(".p4")
    };
    let mut files: Vec<PathBuf> = files.filter(is_ours).collect();
    files.sort();
    files
}

#[test]
fn errors_have_the_recorded_messages() {
    let files = rejected();
    assert!(files.len() > 25, "{}", files.len());
    for path in files {
        let (said, expected) =
            (error_messages(&path), fs::read_to_string(path.with_extension("txt")).unwrap_or_default());
        assert!(!said.is_empty(), "{} was accepted", path.display());
        assert_eq!(said, expected, "{}: expected\n{expected}\nfound\n{said}", path.display());
    }
}

#[test]
#[ignore = "rewrites the recorded error messages"]
fn write_the_recorded_messages() {
    for path in rejected() {
        fs::write(path.with_extension("txt"), error_messages(&path)).unwrap();
    }
}

#[test]
fn every_supported_construct_is_accepted() {
    let (module, _) = parse(include_str!("accepted/every_construct.p4")).unwrap_or_else(|what| panic!("{what}"));
    let is_main = |item: &&_| matches!(item, ItemKind::Instance(instance) if &*instance.name.name == "main");
    assert_eq!(module.items.iter().map(|item| &item.kind).filter(is_main).count(), 1);
}

/// Formats an expression with parentheses around every operator, to show which operands belong to it.
fn tree(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Number { value, width: None } => value.to_string(),
        ExprKind::Number { value, width: Some((width, signed)) } => {
            format!("{width}{}{value}", if *signed { 's' } else { 'w' })
        }
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::String(text) => format!("{text:?}"),
        ExprKind::Name(name) => name.name.to_string(),
        ExprKind::TopName(name) => format!(".{}", name.name),
        ExprKind::Member(value, name) => format!("{}.{}", tree(value), name.name),
        ExprKind::Slice { value, high, low } => format!("{}[{}:{}]", tree(value), tree(high), tree(low)),
        ExprKind::Index(value, index) => format!("{}[{}]", tree(value), tree(index)),
        ExprKind::Call { function, types, arguments } => {
            let types: String = types.iter().map(|ty| format!("<{}>", type_tree(&ty.kind))).collect();
            format!("{}{types}({})", tree(function), arguments_tree(arguments))
        }
        ExprKind::List(arguments) => format!("{{{}}}", arguments_tree(arguments)),
        ExprKind::Cast(ty, value) => format!("({})({})", type_tree(&ty.kind), tree(value)),
        ExprKind::Unary(op, value) => {
            let sign = match op {
                UnaryOp::Negate => "-",
                UnaryOp::BitNot => "~",
                UnaryOp::Not => "!",
                UnaryOp::Plus => "+",
            };
            format!("{sign}({})", tree(value))
        }
        ExprKind::Binary(op, left, right) => format!("({} {} {})", tree(left), sign(*op), tree(right)),
        ExprKind::Conditional(condition, yes, no) => format!("({} ? {} : {})", tree(condition), tree(yes), tree(no)),
    }
}

fn arguments_tree(arguments: &[Argument]) -> String {
    let one = |argument: &Argument| {
        let name = argument.name.as_ref().map_or(String::new(), |name| format!("{}=", name.name));
        format!("{name}{}", argument.value.as_ref().map_or("_".into(), tree))
    };
    arguments.iter().map(one).collect::<Vec<_>>().join(",")
}

fn type_tree(ty: &TypeKind) -> String {
    match ty {
        TypeKind::Bool => "bool".into(),
        TypeKind::Bit(width) => format!("bit {}", tree(width)),
        TypeKind::Int(width) => format!("int {}", tree(width)),
        TypeKind::Integer => "int".into(),
        TypeKind::Error => "error".into(),
        TypeKind::Any => "_".into(),
        TypeKind::Stack(of, size) => format!("{}[{}]", type_tree(&of.kind), tree(size)),
        TypeKind::Tuple(of) => of.iter().map(|ty| format!("<{}>", type_tree(&ty.kind))).collect(),
        TypeKind::Named { name, arguments } => {
            let arguments: String = arguments.iter().map(|ty| format!("<{}>", type_tree(&ty.kind))).collect();
            format!("{}{arguments}", name.name)
        }
    }
}

fn sign(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::SatAdd => "|+|",
        BinaryOp::SatSub => "|-|",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Mod => "%",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::And => "&",
        BinaryOp::Or => "|",
        BinaryOp::Xor => "^",
        BinaryOp::Concat => "++",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::LogicalAnd => "&&",
        BinaryOp::LogicalOr => "||",
    }
}

/// Precedence and grammar of operators, as section 8 of the P4_16 specification defines them.
#[test]
fn operators_bind_as_the_specification_says() {
    let cases = [
        ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"),
        ("a || b && c == d", "(a || (b && (c == d)))"),
        ("a == b < c", "(a == (b < c))"),
        // In C, `&` and `|` bind less tightly than `==`.
        ("a & 1 == b | c ^ d & e", "((a & 1) == (b | (c ^ (d & e))))"),
        ("a < b & c", "(a < (b & c))"),
        ("a & b << 1 + 2", "(a & (b << (1 + 2)))"),
        ("a >> 1 >> 2", "((a >> 1) >> 2)"),
        ("a > b", "(a > b)"),
        ("a > > b", "expected a value, found `>`"),
        ("a >= b", "(a >= b)"),
        ("a ++ b + c |+| d |-| e", "((((a ++ b) + c) |+| d) |-| e)"),
        ("a / b % c", "((a / b) % c)"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ? b ? c : d : e", "(a ? (b ? c : d) : e)"),
        ("a || b ? c : d", "((a || b) ? c : d)"),
        ("-a.b[3:0] + ~!c", "(-(a.b[3:0]) + ~(!(c)))"),
        ("-(1) - -1", "(-(1) - -(1))"),
        ("(bit<8>) a + b", "((bit 8)(a) + b)"),
        ("(bit<8>) -a.b", "(bit 8)(-(a.b))"),
        ("(bit<8>)(bool) a", "(bit 8)((bool)(a))"),
        ("(bit<(N + 1)>) a", "(bit (N + 1))(a)"),
        ("(bit<N>) a", "(bit N)(a)"),
        // In these cases `T` is a declared type, and `a` is not.
        ("(a) - b", "(a - b)"),
        ("(T) - b", "(T)(-(b))"),
        ("(a)(b)", "a(b)"),
        ("(T)(b)", "(T)(b)"),
        ("(a) b", "(a)(b)"),
        ("(G<bit<8>>) b", "(G<bit 8>)(b)"),
        ("f(a < b, c > (d))", "f((a < b),(c > d))"),
        ("f<T>(a)", "f<T>(a)"),
        ("f<bit<8>, G<bit<8>>>(a)", "f<bit 8><G<bit 8>>(a)"),
        ("f<_>(_, b = 1, c = _)", "f<_>(_,b=1,c=_)"),
        ("a.f(1).b", "a.f(1).b"),
        ("{a, 1}", "{a,1}"),
        ("{x = 1, y = {2,}, }", "{x=1,y={2}}"),
        ("{}", "{}"),
        (".a + error.B", "(.a + error.B)"),
        ("8w0xF_F + 4s0b0111 + 0O17 + 0D9 + 1_0", "((((8w255 + 4s7) + 15) + 9) + 10)"),
        ("340282366920938463463374607431768211455", "340282366920938463463374607431768211455"),
        ("128s170141183460469231731687303715884105727", "128s170141183460469231731687303715884105727"),
    ];
    for (text, expected) in cases {
        let said = match parse(&format!("typedef bit<8> T;\nconst T A = {text};")) {
            Ok((module, _)) => match &module.items[1].kind {
                ItemKind::Const(constant) => tree(&constant.value),
                other => panic!("{other:?}"),
            },
            Err(errors) => errors.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string(),
        };
        assert_eq!(said, expected, "{text}");
    }
}

fn constants(text: &str) -> Vec<(String, String)> {
    let (module, _) = parse(text).unwrap_or_else(|what| panic!("{what}"));
    let constant = |kind: &ItemKind| match kind {
        ItemKind::Const(constant) => Some((constant.name.name.to_string(), tree(&constant.value))),
        _ => None,
    };
    module.items.iter().filter_map(|item| constant(&item.kind)).collect()
}

#[test]
fn macros_are_expanded_and_conditions_evaluated() {
    let text = "#define TWO 1 + 1
#define FOUR TWO * TWO // a comment is no part of it
#define SELF SELF
#define LONG 1 + \\
    2
#define EMPTY
const int A = FOUR; const int B = SELF; const int C EMPTY = LONG;
#undef TWO
const int D = TWO;
#ifdef EMPTY
  #ifdef TWO
const int E = 1;
  #else
const int F = 1;
    #ifndef TWO /* nested */
const int G = 1;
    #endif
  #endif
#else
  #ifdef EMPTY
const int H = 1;
  #else
const int I = 1;
  #endif
  #nonsense
#endif
# define LATE 3
#
const int J = LATE;";
    let expected = [
        ("A", "((1 + (1 * 1)) + 1)"),
        ("B", "SELF"),
        ("C", "(1 + 2)"),
        ("D", "TWO"),
        ("F", "1"),
        ("G", "1"),
        ("J", "3"),
    ];
    assert_eq!(constants(text), expected.map(|(name, value)| (name.to_string(), value.to_string())));
}

#[test]
fn files_are_found_from_the_file_that_includes_them() {
    let files = [
        ("sub/a.p4", "#include \"b.p4\"\n#include \"../c.p4\"\nconst int A = 1;"),
        ("sub/b.p4", "const int B = 2;"),
        ("c.p4", "#ifndef C\n#define C\nconst int C_ = 3;\n#endif"),
    ];
    let include = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.to_string());
    let text = "#include \"sub/a.p4\"\n#include \"./sub//../c.p4\"\nconst int M = 0;";
    let main = SourceFile { name: "some/where/main.p4".into(), text: text.into() };
    let (module, sources) =
        parse_program(main, &include).unwrap_or_else(|(errors, sources)| panic!("{}", render(&errors, &sources)));
    let names: Vec<&str> = sources.files.iter().map(|file| file.name.as_str()).collect();
    let expected =
        ["some/where/main.p4", "some/where/sub/a.p4", "some/where/sub/b.p4", "some/where/c.p4", "some/where/c.p4"];
    assert_eq!(names, expected);
    let texts: Vec<&str> = module.items.iter().map(|item| sources.text(item.span)).collect();
    assert_eq!(texts, ["const int B = 2;", "const int C_ = 3;", "const int A = 1;", "const int M = 0;"]);
}

/// Without limits in the parser, each of these programs would exhaust its memory, time or stack.
#[test]
fn hostile_programs_are_refused() {
    let deep = 100_000;
    let repeat = |open: &str| open.repeat(deep);
    let bomb: String = (0..60).map(|i| format!("#define M{i} M{next} M{next}\n", next = i + 1)).collect();
    let programs = [
        format!("const int A = {}1;", repeat("(")),
        format!("const int A = {}1;", repeat("-")),
        format!("const int A = {}1;", repeat("(bit<8>) ")),
        format!("const int A = {}1;", repeat("{")),
        format!("const int A = {}1;", repeat("a[")),
        format!("const int A = {}1;", repeat("f(")),
        format!("const int A = {}1;", repeat("a ? ")),
        format!("const int A = {}1;", repeat("a ? b : ")),
        format!("const int A = a{};", repeat(".b")),
        format!("const int A = a{};", repeat("[1:0]")),
        format!("const int A = 1{};", repeat(" + 1")),
        format!("const int A = {}1;", repeat("a < ")),
        format!("const int A = {}1;", repeat("T<bit<(")),
        format!("const {} A = 1;", repeat("bit<(")),
        format!("const {} A = 1;", repeat("T<")),
        format!("control C() {{ apply {{ {}", repeat("{ ")),
        format!("control C() {{ apply {{ {}", repeat("if (a) ")),
        format!("control C() {{ apply {{ {}", repeat("if (a) { } else ")),
        format!("control C() {{ apply {{ {}", repeat("switch (a) { 1: {")),
        format!("control C() {{ apply {{ {}", repeat("T<x> ")),
        format!("@a{} const int A = 1;", repeat("(")),
        format!("parser P() {{ state s {{ transition select(a) {{ {}", repeat("(")),
        format!("parser P() {{ state s {{ transition select(a) {{ {}", repeat("(1 ")),
        repeat("}"),
        repeat("{"),
        repeat("$"),
        repeat("@a "),
        repeat("control C() { "),
        repeat("#ifdef A\n"),
        format!("{bomb}const int A = M0;"),
        format!("{bomb}#define M60\nconst int A = M0;"),
        format!("const int A = 1{}", " ".repeat(9 << 20)),
    ];
    for program in programs {
        let said = parse(&program).expect_err(&program[..80.min(program.len())]);
        assert!(said.matches("error: ").count() <= 20);
        assert!(said.len() < 20_000, "{} bytes for {}", said.len(), &program[..80]);
    }
}

/// For one wrong statement among correct statements, the parser reports exactly one error.
#[test]
fn one_mistake_gives_one_error() {
    let mistakes = [
        "x = ;",
        "x = 1 2;",
        "f(;",
        "f(1;",
        "x = (1;",
        "x = {1, ;",
        "x = {1, 2;",
        "if x { y = 1; }",
        "if (x y = 1;",
        "if (x) { y = ; } else { z = 1; }",
        "else { y = 1; }",
        "switch (x) { 1 { y = 1; } }",
        "switch x { 1: { y = 1; } }",
        "for (;;) { x = 1; }",
        "retrun;",
        "x = (y, 1);",
        "bit<8> = 1;",
        "bit<8 y = 1;",
        "x.1 = 2;",
        "x = 8w256;",
        "x = $;",
        "x = \"text;",
        "action a() { x = 1; }",
        "x;",
        "x = a ? b;",
        "h_t[2 h;",
        "x = {#};",
        "tuple<bit<8>> t = {1;",
        "@name(\"x\" x = 1;",
        "foo { x = 1; }",
    ];
    for mistake in mistakes {
        let text = format!(
            "control C() {{\n  apply {{\n    a = 1;\n    {mistake}\n    b = f(2);\n    if (c) {{ d = 3; }}\n  }}\n}}\ncontrol D() {{ apply {{ }} }}\n"
        );
        let said = parse(&text).expect_err(mistake);
        assert_eq!(said.matches("error: ").count(), 1, "{mistake}\n{said}");
        assert!(said.contains("program.p4:4:") || said.contains("program.p4:5:"), "{mistake}\n{said}");
    }
}
