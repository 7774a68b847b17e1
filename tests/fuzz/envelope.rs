//! Queue messages.

use proptest::prelude::*;
use sealpost::outbox::envelope::{BODY_BYTES_MAX, Envelope, EnvelopeError, KIND, NOT_TEXT_MARK, VERSION};
use sealpost::outbox::id::{OUTBOX_ID_BYTES_MAX, is_outbox_id};
use serde_json::json;

use crate::document::{changed, changes};
use crate::hostile::{self, MARK};

const NAMES: &[&str] = &["kind", "version", "outboxId", "telemetry"];

pub fn body() -> impl Strategy<Value = Option<String>> {
    let nearly = changes(NAMES).prop_map(|changes| {
        let envelope = json!({
            "kind": KIND, "version": VERSION, "outboxId": "inv_0123456789",
            "telemetry": { "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" },
        });
        String::from_utf8_lossy(&changed(&envelope, &changes)).into_owned()
    });
    prop_oneof![
        8 => nearly.prop_map(Some),
        1 => hostile::text().prop_map(Some),
        1 => hostile::token().prop_map(Some),
        1 => hostile::text().prop_map(|text| Some(format!("{NOT_TEXT_MARK}{text}"))),
        1 => (4_000_usize..5_000).prop_map(|length| {
            Some(format!("{}{}", Envelope::to_row("inv_0123456789").to_body(), " ".repeat(length)))
        }),
        1 => Just(None),
    ]
}

proptest! {
    #[test]
    fn what_is_read_is_an_envelope_of_ours_and_says_the_same_again(body in body()) {
        match Envelope::read(body.as_deref()) {
            Ok(envelope) => {
                let body = body.unwrap();
                let is_object = body.trim_start().starts_with('{');
                prop_assert!(is_object && body.len() <= BODY_BYTES_MAX);
                prop_assert_eq!((envelope.kind.as_str(), envelope.version), (KIND, VERSION));
                prop_assert!(is_outbox_id(&envelope.outbox_id));
                prop_assert!(envelope.outbox_id.len() <= OUTBOX_ID_BYTES_MAX);
                prop_assert_eq!(Envelope::read(Some(&envelope.to_body())), Ok(envelope));
            }
            Err(error) => {
                let text = error.to_string();
                prop_assert!(text.starts_with("envelope_") && !text.contains(MARK));
                if body.is_some_and(|body| body.trim_start().starts_with('[')) {
                    // A list is no envelope of any kind or version.
                    prop_assert!(matches!(error, EnvelopeError::Unreadable | EnvelopeError::TooLong));
                }
            }
        }
    }

    #[test]
    fn an_id_is_legal_wherever_it_goes(id in prop_oneof![hostile::text(), "[a-zA-Z0-9_-]{0,70}"]) {
        if is_outbox_id(&id) {
            prop_assert!((8..=OUTBOX_ID_BYTES_MAX).contains(&id.len()));
            prop_assert!(sealpost::outbox::tags::clean(&id).is_ok());
            let body = Envelope::to_row(&id).to_body();
            prop_assert_eq!(Envelope::read(Some(&body)).unwrap().outbox_id, id);
        }
    }
}

#[test]
fn a_list_is_no_envelope_of_another_version() {
    for body in [r#"["sealpost-outbox",2]"#, r#"["sealpost-outbox",1]"#, r#"["x",null]"#] {
        assert_eq!(Envelope::read(Some(body)), Err(EnvelopeError::Unreadable), "{body}");
    }
}
