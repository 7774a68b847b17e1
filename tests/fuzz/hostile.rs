//! Small pieces that have broken parsers before.

use proptest::prelude::*;

/// Planted in inputs; a refusal or a log that shows it has repeated what it was given.
pub const MARK: &str = "Zq7MarkerX9";

/// Texts with a meaning for some parser: line ends, invisible and direction-changing characters, letters whose length
/// changes with their case or in punycode, what looks like syntax.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\0",
    "a\r\nBcc: z@example.com",
    "\u{85}",
    "\u{2028}",
    "\u{feff}a",
    "\u{202e}moc.elpmaxe",
    "\u{200d}\u{200b}",
    "\u{130}stanbul.example",
    "stra\u{df}e.example",
    "\u{fb03}x.example",
    "\u{1e9e}",
    "\u{ff41}\u{ff20}\u{ff42}.example",
    "a\u{3002}example",
    "e\u{301}\u{301}\u{301}.example",
    "xn--.example",
    "xn--bcher-kva.example",
    "\u{5d0}1.example",
    "\u{1f469}\u{200d}\u{1f4bb}",
    "a@b.example",
    "A <a@b.example>",
    "\"\\\"\" <a@b.example>",
    "{{ 7 * 7 }}{% raw %}",
    "</p><script>",
    "javascript:alert(1)",
    "https://x.example/?a=b&c=\u{e9}",
    "null",
    "-0",
    "1e400",
    "9223372036854775808",
    "2026-02-30T25:61:61Z",
    "%00%ff",
    "../../etc",
    "'; DROP TABLE outbox; --",
];

/// JSON values as they are written; some are no JSON at all.
const TOKENS: &[&str] = &[
    "null",
    "true",
    "-0",
    "-0.0",
    "1.0",
    "1e400",
    "-1e400",
    "1e-400",
    "1e308",
    "0.30000000000000004",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "4294967296",
    "01",
    "+1",
    "NaN",
    "[]",
    "{}",
    "[[]]",
    "[null]",
    r#"{"":null}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"email":"a@b.example","name":null}"#,
    r#"["a@b.example","A"]"#,
    r#"{"$serde_json::private::Number":"1"}"#,
    r#"{"$serde_json::private::RawValue":"[1]"}"#,
    r#""\ud800""#,
    r#""\udc00\ud800""#,
    r#""\ud83d\ude00""#,
    r#""\u0000""#,
    r#""\u0061\u0062""#,
    r#""\x""#,
    "\"a\nb\"",
    "\"unclosed",
];

/// A text that is unlikely to be read as its writer meant it.
pub fn text() -> BoxedStrategy<String> {
    prop_oneof![
        6 => prop::sample::select(TEXTS).prop_map(str::to_owned),
        2 => (prop::sample::select(TEXTS), prop::sample::select(TEXTS)).prop_map(|(a, b)| format!("{a}{b}")),
        3 => any::<String>(),
        2 => "\\PC{0,40}",
        2 => "[ -~]{0,80}",
        2 => Just(MARK.to_owned()),
        1 => text_of_length(),
    ]
    .boxed()
}

/// Around every limit there is, and far beyond.
fn text_of_length() -> impl Strategy<Value = String> {
    let length = prop_oneof![
        Just(64_usize),
        Just(65),
        Just(80),
        Just(81),
        Just(128),
        Just(129),
        Just(254),
        Just(256),
        Just(257),
        Just(998),
        Just(999),
        Just(2049),
        Just(20_000),
        0_usize..300,
    ];
    let piece = prop::sample::select(vec!["a", "9", "-", ".", "\u{e9}", "\u{1f600}", "\u{1}", "\"", "\\"]);
    (length, piece)
        .prop_map(|(length, piece)| piece.repeat(length / piece.len() + usize::from(length % piece.len() > 0)))
}

/// One JSON value as text, in places where another was expected.
pub fn token() -> BoxedStrategy<String> {
    prop_oneof![
        6 => prop::sample::select(TOKENS).prop_map(str::to_owned),
        4 => text().prop_map(|text| quoted(&text)),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        2 => any::<f64>().prop_filter("JSON has no such number", |number| number.is_finite()).prop_map(|number| format!("{number:?}")),
        1 => (1_usize..140).prop_map(|depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth))),
        1 => (1_usize..140).prop_map(|depth| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth))),
    ]
    .boxed()
}

/// A text as a JSON string.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether an error repeats nothing of the input, in whatever way it is shown.
pub fn is_quiet(error: &(impl core::fmt::Display + core::fmt::Debug)) -> bool {
    !format!("{error} {error:?}").contains(MARK)
}

/// Whether what is shown for debugging repeats nothing of the input.
pub fn debug_is_quiet(value: &impl core::fmt::Debug) -> bool {
    !format!("{value:?}").contains(MARK)
}

/// Whether a text cannot end a header line.
pub fn is_one_line(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}'))
}
