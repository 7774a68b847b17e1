//! The queue message: a pointer to a row, and nothing about a person.

use serde::{Deserialize, Serialize};

use super::id::is_outbox_id;

/// What kind of message it is; the queue may be shared one day.
pub const KIND: &str = "sealpost-outbox";
/// The version that this program writes.
pub const VERSION: u32 = 1;
/// The longest body that is read. An envelope has about 100 bytes; trace ids may add some.
pub const BODY_BYTES_MAX: usize = 4_096;

/// Begins what stands for a body that is no text, so that it can be kept. No JSON begins so.
pub const NOT_TEXT_MARK: &str = "(not a text) ";

/// A queue message as it is written and read, always as JSON text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    /// Always [`KIND`].
    pub kind: String,
    /// [`VERSION`].
    pub version: u32,
    /// The row it points to.
    pub outbox_id: String,
}

/// Why a body is no envelope of ours. It is parked under this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Not a text: another producer, or another content type.
    #[error("envelope_not_text")]
    NotText,
    /// Too long to be one.
    #[error("envelope_too_long")]
    TooLong,
    /// Not JSON, or not of our shape.
    #[error("envelope_unreadable")]
    Unreadable,
    /// A kind that this program does not know.
    #[error("envelope_kind_unknown")]
    KindUnknown,
    /// A version that this program does not know: perhaps a newer program wrote it.
    #[error("envelope_version_unknown")]
    VersionUnknown,
    /// Its id cannot be an id of ours.
    #[error("envelope_id_invalid")]
    IdInvalid,
}

impl Envelope {
    /// The envelope of a row.
    pub fn to_row(outbox_id: &str) -> Self {
        Self {
            kind: KIND.to_owned(),
            version: VERSION,
            outbox_id: outbox_id.to_owned(),
        }
    }

    /// The message body.
    pub fn to_body(&self) -> String {
        serde_json::json!({ "kind": self.kind, "version": self.version, "outboxId": self.outbox_id }).to_string()
    }

    /// Reads a body. Unknown keys are ignored: a newer program may add telemetry.
    ///
    /// # Errors
    /// [`EnvelopeError`] names the first thing that is wrong.
    pub fn read(body: Option<&str>) -> Result<Self, EnvelopeError> {
        let text = body
            .filter(|text| !text.starts_with(NOT_TEXT_MARK))
            .ok_or(EnvelopeError::NotText)?;
        if text.len() > BODY_BYTES_MAX {
            return Err(EnvelopeError::TooLong);
        }
        // A list would be read as an object's values in their order.
        if !text.trim_start().starts_with('{') {
            return Err(EnvelopeError::Unreadable);
        }
        #[derive(Deserialize)]
        struct Loose {
            kind: Option<String>,
            version: Option<u32>,
        }
        let loose: Loose = serde_json::from_str(text).map_err(|_| EnvelopeError::Unreadable)?;
        match (loose.kind.as_deref(), loose.version) {
            (Some(KIND), Some(VERSION)) => {}
            (Some(KIND), _) => return Err(EnvelopeError::VersionUnknown),
            (_, _) => return Err(EnvelopeError::KindUnknown),
        }
        let envelope: Self = serde_json::from_str(text).map_err(|_| EnvelopeError::Unreadable)?;
        if is_outbox_id(&envelope.outbox_id) {
            Ok(envelope)
        } else {
            Err(EnvelopeError::IdInvalid)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes_and_nothing_more_is_in_it() {
        let envelope = Envelope::to_row("inv_0123456789");
        assert_eq!(
            envelope.to_body(),
            r#"{"kind":"sealpost-outbox","outboxId":"inv_0123456789","version":1}"#
        );
        assert_eq!(Envelope::read(Some(&envelope.to_body())), Ok(envelope));
    }

    #[test]
    fn names_what_is_wrong() {
        let cases = [
            (None, EnvelopeError::NotText),
            (
                Some(r#"(not a text) {"kind":"sealpost-outbox","version":1,"outboxId":"inv_0123456789"}"#),
                EnvelopeError::NotText,
            ),
            (Some("null"), EnvelopeError::Unreadable),
            (Some("text"), EnvelopeError::Unreadable),
            (Some(r#"["sealpost-outbox",2]"#), EnvelopeError::Unreadable),
            (Some("{}"), EnvelopeError::KindUnknown),
            (Some(r#"{"v":99,"id":"x"}"#), EnvelopeError::KindUnknown),
            (
                Some(r#"{"kind":"sealpost-outbox","version":2,"outboxId":"inv_0123456789"}"#),
                EnvelopeError::VersionUnknown,
            ),
            (
                Some(r#"{"kind":"sealpost-outbox","version":1}"#),
                EnvelopeError::Unreadable,
            ),
            (
                Some(r#"{"kind":"sealpost-outbox","version":1,"outboxId":"x"}"#),
                EnvelopeError::IdInvalid,
            ),
        ];
        for (body, error) in cases {
            assert_eq!(Envelope::read(body), Err(error), "{body:?}");
        }
        assert_eq!(
            Envelope::read(Some(&" ".repeat(BODY_BYTES_MAX + 1))),
            Err(EnvelopeError::TooLong)
        );
    }

    proptest::proptest! {
        #[test]
        fn never_panics(body in ".{0,300}") {
            let _ = Envelope::read(Some(&body));
        }
    }
}
