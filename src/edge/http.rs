//! The fetch handler: the Worker's request as plain values, and the answer back.

use futures_util::StreamExt as _;
use worker::{Context, Env, Headers, Response};

use super::broker::QueueBroker;
use super::settings;
use super::world::EdgeWorld;
use crate::config::Config;
use crate::operate::{Answer, BODY_BYTES_MAX, Request, answer, not_configured};
use crate::publish::publish_after_intake;
use crate::receipts::{HEADER_NAMES, SignatureHeaders};

/// Answers, and publishes after the answer.
pub(super) async fn handle(mut request: worker::Request, env: Env, context: Context) -> worker::Result<Response> {
    let header = |name: &str| request.headers().get(name).ok().flatten();
    let (authorization, content_type) = (header("authorization"), header("content-type"));
    let signed = HEADER_NAMES.map(|names| names.map(header));
    let signed = signed
        .iter()
        .find(|headers| headers.iter().all(Option::is_some))
        .or(signed.first());
    let (method, path) = (request.method().to_string(), request.path());
    // The platform has parsed and written the URL: a parser of our own would find the same, and weigh 10 kB.
    let url = request.inner().url();
    let query = url
        .split('#')
        .next()
        .and_then(|url| url.split_once('?'))
        .map(|(_, query)| query);
    let body = read(&mut request).await;
    let plain = Request {
        method: &method,
        path: &path,
        query,
        authorization: authorization.as_deref(),
        content_type: content_type.as_deref(),
        signature: match signed {
            Some([id, timestamp, signature]) => SignatureHeaders {
                id: id.as_deref(),
                timestamp: timestamp.as_deref(),
                signature: signature.as_deref(),
            },
            None => SignatureHeaders::default(),
        },
        body: body.as_deref(),
    };
    let config = match Config::read(&settings::of(&env)) {
        Ok(config) => config,
        Err(error) => return respond(&not_configured(&error, &plain)),
    };
    let world = EdgeWorld::new(&config);
    let mut answer = answer(&world, &config, &plain).await;
    let to_publish = core::mem::take(&mut answer.to_publish);
    if !to_publish.is_empty() {
        context.wait_until(async move {
            publish_after_intake(&world, &QueueBroker::of(&env), &config, &to_publish).await;
        });
    }
    respond(&answer)
}

/// The body, or `None` where it is too long or breaks off.
async fn read(request: &mut worker::Request) -> Option<Vec<u8>> {
    let Ok(mut stream) = request.stream() else {
        return Some(Vec::new());
    };
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.ok()?;
        if body.len().saturating_add(chunk.len()) > BODY_BYTES_MAX {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    Some(body)
}

fn respond(answer: &Answer) -> worker::Result<Response> {
    let headers = Headers::new();
    headers.set("content-type", answer.content_type)?;
    headers.set("x-content-type-options", "nosniff")?;
    for (name, value) in &answer.headers {
        headers.set(name, value)?;
    }
    Ok(Response::from_bytes(answer.bytes())?
        .with_status(answer.status)
        .with_headers(headers))
}
