//! What the compiled templates say is what the engine says that the language comes from: for every shipped template
//! with data of every kind, and for whatever else may stand in a template.

use std::sync::LazyLock;

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, escape_formatter,
    value::{Serde, Value, ValueKind},
};
use proptest::{prelude::*, strategy::ValueTree};
use serde_json::json;

use super::*;
use crate::provider::{filters::LINK_BYTES_MAX, template, template_file};

/// The templates' files, as the build script reads them.
const FILES: [(&str, &str); 20] = {
    macro_rules! files {
        ($($name:literal)*) => {[$(($name, include_str!(concat!("../../templates/", $name)))),*]};
    }
    files! {
        "layout.html" "layout.txt"
        "application_decision/subject.txt" "application_decision/body.html" "application_decision/body.txt"
        "demo_request_team/subject.txt" "demo_request_team/body.html" "demo_request_team/body.txt"
        "demo_request_visitor/subject.txt" "demo_request_visitor/body.html" "demo_request_visitor/body.txt"
        "invitation/subject.txt" "invitation/body.html" "invitation/body.txt"
        "pledge_receipt/subject.txt" "pledge_receipt/body.html" "pledge_receipt/body.txt"
        "renewal_notice/subject.txt" "renewal_notice/body.html" "renewal_notice/body.txt"
    }
};

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused;

fn refused() -> Error {
    Error::new(ErrorKind::InvalidOperation, "value refused").with_source(Refused)
}

fn printable(value: &Value) -> Result<(), Error> {
    let kind = value.kind();
    if kind == ValueKind::String || kind == ValueKind::Number || kind == ValueKind::Bool {
        Ok(())
    } else if kind == ValueKind::None || kind == ValueKind::Undefined {
        Err(Error::from(ErrorKind::UndefinedError))
    } else {
        Err(refused())
    }
}

/// A filter of the engine that gives a text to one of ours.
fn filter(filter: Filter) -> impl Fn(&State, &Value) -> Result<Value, Error> {
    move |state, value| {
        printable(value)?;
        let text = Json::from(value.as_str().ok_or_else(refused)?);
        let html = *state.auto_escape() == AutoEscape::Html;
        let printed = filters::print(filter, Some(&text), html).map_err(|_| refused())?;
        Ok(if html {
            Value::from_safe_string(printed.into_owned())
        } else {
            Value::from(printed.into_owned())
        })
    }
}

fn engine() -> Environment<'static> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_auto_escape_callback(|name| {
        if name.ends_with(".html") {
            AutoEscape::Html
        } else {
            AutoEscape::None
        }
    });
    engine.set_formatter(|out, state, value| match printable(value) {
        Ok(()) => escape_formatter(out, state, value),
        Err(error) => Err(error),
    });
    engine.add_filter("link", filter(Filter::Link));
    engine.add_filter("paragraph", filter(Filter::Paragraph));
    engine.add_filter("refuse", |_: &Value| -> Result<Value, Error> { Err(refused()) });
    engine.set_syntax(template_file::syntax().unwrap());
    for (name, source) in FILES {
        engine.add_template(name, source).unwrap();
    }
    engine
}

fn judge(error: &Error) -> RenderError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if current.is::<Refused>() {
            return RenderError::DataInvalid;
        }
        if current.downcast_ref::<Error>().map(Error::kind) == Some(ErrorKind::UndefinedError) {
            return RenderError::DataIncomplete;
        }
        cause = current.source();
    }
    RenderError::TemplateFailed
}

fn by_engine(name: &str, data: &Json) -> Result<String, RenderError> {
    static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(engine);
    let template = ENGINE.get_template(name).unwrap();
    template.render(Value::from(Serde(data))).map_err(|error| judge(&error))
}

/// Every name that a shipped template may ask for.
const NAMES: &str = "acceptUrl amount applicantName beneficiary cancelBy company companyAddress customerName decision \
    donorName email expiresOn inviterName leadUrl manageUrl matchedBy message name \
    nextStepUrl note organisation paymentMethod phone plan pledgedOn programme recipientName \
    reference renewsOn replyWithin secret submittedAt unknown other";

fn word() -> impl Strategy<Value = Json> {
    prop_oneof![
        5 => Just(json!("https://a.example/b?c=1&d=2")),
        2 => "[a-z<>&\"'/ \r\n]{0,12}".prop_map(Json::from),
        1 => prop_oneof![Just("accepted"), Just("declined"), Just("waitlisted"), Just("Grüße")].prop_map(Json::from),
    ]
}

/// Mostly what a template takes; sometimes what it must not.
fn value() -> impl Strategy<Value = Json> {
    prop_oneof![
        60 => word(),
        2 => any::<i64>().prop_map(Json::from),
        1 => any::<u64>().prop_map(Json::from),
        2 => any::<f64>().prop_map(Json::from),
        1 => (-3..3_i32).prop_map(|small| json!(f64::from(small))),
        1 => any::<bool>().prop_map(Json::from),
        1 => Just(Json::Null),
        1 => proptest::collection::vec(word(), 0..3).prop_map(Json::from),
        1 => word().prop_map(|link| json!({ "cancelUrl": link })),
    ]
}

/// Data with most names, and a secret that is one in half of them.
fn data() -> impl Strategy<Value = Json> {
    let values = proptest::collection::vec(proptest::option::weighted(0.99, value()), NAMES.split(' ').count());
    (values, proptest::option::of(word())).prop_map(|(values, secret)| {
        let mut data = serde_json::Map::new();
        for (name, value) in NAMES.split(' ').zip(values) {
            data.extend(value.map(|value| (name.to_owned(), value)));
        }
        data.extend(secret.map(|link| ("secret".to_owned(), json!({ "cancelUrl": link }))));
        Json::Object(data)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_shipped_template_says_what_the_engine_says(data in data()) {
        for template in FILES.iter().filter_map(|(file, _)| file.strip_suffix("/subject.txt")) {
            for (file, html) in [("subject.txt", false), ("body.html", true), ("body.txt", false)] {
                let part = template::part(template, file).unwrap();
                prop_assert_eq!(
                    render(part, &data, html, LETTER_BYTES_MAX),
                    by_engine(&format!("{template}/{file}"), &data),
                    "{}/{}", template, file
                );
            }
        }
    }
}

#[test]
fn generated_data_fills_most_letters() {
    // Without this, the comparison could be one of errors alone.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut filled = 0;
    for _ in 0..100 {
        let data = data().new_tree(&mut runner).unwrap().current();
        filled += usize::from(by_engine("pledge_receipt/body.html", &data).is_ok());
    }
    assert!(filled > 50, "{filled}");
}

/// Holds a template to the nodes that it is compiled to, and the nodes to the engine.
macro_rules! same {
    ($name:literal, $source:literal, $nodes:tt, $data:expr) => {{
        static NODES: &[Node] = &$nodes;
        let compiled = template_file::part($name, $source, &[]).unwrap();
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        let expected = format!("Part {{ frame: &{}, blocks: &[] }}", stringify!($nodes));
        assert_eq!(squeezed(&compiled), squeezed(&expected));
        let mut engine = engine();
        engine.add_template($name, $source).unwrap();
        for data in $data {
            let wanted = engine.get_template($name).unwrap().render(Value::from(Serde(&data)));
            let part = Part {
                frame: NODES,
                blocks: &[],
            };
            let ours = render(&part, &data, $name.ends_with(".html"), LETTER_BYTES_MAX);
            assert_eq!(ours, wanted.map_err(|error| judge(&error)), "{data}");
        }
    }};
}

#[test]
fn every_kind_of_node_says_what_the_engine_says() {
    let of = |name: &str| {
        let values = [
            json!("x"),
            json!("yes"),
            json!("<a/b>"),
            json!(""),
            json!(0),
            json!(0.0),
            json!(-0.0),
            json!(7),
            json!(2.5),
            json!(1e300),
            json!(1e-9),
            json!(u64::MAX),
            json!(true),
            json!(false),
            json!([]),
            json!({}),
            json!([1]),
            json!({"b": "c"}),
            json!({"b": null}),
            Json::Null,
        ];
        let mut all: Vec<Json> = values.into_iter().map(|value| json!({ name: value })).collect();
        all.push(json!({}));
        all
    };
    same!("a.html", "{{ a }}", [Node::Print(&["a"], Filter::Plain),], of("a"));
    same!("a.txt", "{{ a }}", [Node::Print(&["a"], Filter::Plain),], of("a"));
    same!(
        "a.html",
        "{{ a.b }}",
        [Node::Print(&["a", "b"], Filter::Plain),],
        of("a")
    );
    same!(
        "a.html",
        "{{ a|paragraph }}",
        [Node::Print(&["a"], Filter::Paragraph),],
        of("a")
    );
    same!("a.txt", "{{ a|link }}", [Node::Print(&["a"], Filter::Link),], of("a"));
    same!(
        "a.txt",
        "{% if a %}yes{% else %}no{% endif %}",
        [Node::If {
            when: Condition::Filled(&["a"]),
            then: &[Node::Text("yes"),],
            otherwise: &[Node::Text("no"),]
        },],
        of("a")
    );
    same!(
        "a.txt",
        "{% if a is not defined or not a != 'yes' %}yes{% elif a.b is defined and a == 'x' %}x{% endif %}",
        [Node::If {
            when: Condition::Or(
                &Condition::Not(&Condition::Defined(&["a"])),
                &Condition::Not(&Condition::Not(&Condition::Is(&["a"], "yes")))
            ),
            then: &[Node::Text("yes"),],
            otherwise: &[Node::If {
                when: Condition::And(&Condition::Defined(&["a", "b"]), &Condition::Is(&["a"], "x")),
                then: &[Node::Text("x"),],
                otherwise: &[]
            },]
        },],
        of("a")
    );
}

#[test]
fn a_loop_goes_over_a_list_and_nothing_else() {
    let lists = [
        json!({"list": [], "a": "outside"}),
        json!({"list": [{"b": ["<", 2]}, {"b": []}, {"b": [true]}], "a": "outside"}),
        json!({"list": [{"b": [null]}]}),
        json!({"list": [1]}),
        json!({}),
    ];
    same!(
        "a.html",
        "{% for a in list %}{% for a in a.b %}{{ a }},{% else %}-{% endfor %};{% else %}none, {{ a }}{% endfor %}",
        [Node::For {
            name: "a",
            list: &["list"],
            each: &[
                Node::For {
                    name: "a",
                    list: &["a", "b"],
                    each: &[Node::Print(&["a"], Filter::Plain), Node::Text(","),],
                    none: &[Node::Text("-"),]
                },
                Node::Text(";"),
            ],
            none: &[Node::Text("none, "), Node::Print(&["a"], Filter::Plain),]
        },],
        lists
    );
    static LOOP: Part = Part {
        frame: &[Node::For {
            name: "a",
            list: &["list"],
            each: &[],
            none: &[],
        }],
        blocks: &[],
    };
    let looped = |list: Json| render(&LOOP, &json!({ "list": list }), false, LETTER_BYTES_MAX);
    assert_eq!(looped(json!([1])), Ok(String::new()));
    assert_eq!(looped(Json::Null), Err(RenderError::DataIncomplete));
    for other in [json!("ab"), json!({"a": 1}), json!(1), json!(true)] {
        assert_eq!(looped(other), Err(RenderError::DataInvalid));
    }
}

#[test]
fn a_runaway_template_is_stopped() {
    static ENDLESS: Part = Part {
        frame: &[Node::For {
            name: "a",
            list: &["list"],
            each: &[Node::For {
                name: "b",
                list: &["list"],
                each: &[Node::For {
                    name: "c",
                    list: &["list"],
                    each: &[],
                    none: &[],
                }],
                none: &[],
            }],
            none: &[],
        }],
        blocks: &[],
    };
    let list = json!({ "list": vec![0; 1_000] });
    assert_eq!(
        render(&ENDLESS, &list, false, LETTER_BYTES_MAX),
        Err(RenderError::LetterTooLarge)
    );
}

#[test]
fn a_part_stops_at_its_room() {
    static PART: Part = Part {
        frame: &[Node::Text("ab"), Node::Print(&["c"], Filter::Plain)],
        blocks: &[],
    };
    let data = json!({"c": "cd"});
    assert_eq!(render(&PART, &data, false, 4), Ok("abcd".to_owned()));
    assert_eq!(render(&PART, &data, false, 3), Err(RenderError::LetterTooLarge));
    assert_eq!(render(&PART, &data, false, 1), Err(RenderError::LetterTooLarge));
}

#[test]
fn an_undefined_value_is_incomplete_before_it_is_refused() {
    let long = format!("https://example.com/{}", "a".repeat(LINK_BYTES_MAX));
    let cases = [
        (Filter::Refuse, json!(null), RenderError::DataInvalid),
        (Filter::Refuse, json!("x"), RenderError::DataInvalid),
        (Filter::Link, json!(null), RenderError::DataIncomplete),
        (Filter::Link, json!(long), RenderError::DataInvalid),
        (Filter::Paragraph, json!(7), RenderError::DataInvalid),
        (Filter::Plain, json!([]), RenderError::DataInvalid),
    ];
    for (filter, value, error) in cases {
        assert_eq!(filters::print(filter, Some(&value), true), Err(error), "{value}");
    }
    for filter in [Filter::Plain, Filter::Link, Filter::Paragraph, Filter::Refuse] {
        assert_eq!(filters::print(filter, None, true), Err(RenderError::DataIncomplete));
    }
}
