//! The inbox page: what the provider accepted, for a person to look at.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::{Deserialize, Serialize};

use super::ledger::Sent;
use super::mail::Tag;
use super::model::Model;
use super::shared::Shared;
use crate::outbox::time::Millis;

/// Mails on one page.
const PAGE_MAILS: usize = 50;
/// Nothing from elsewhere, and no script but our own; the frame with a mail's HTML inherits this.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// Looks for new mail every two seconds while the page is visible.
const SCRIPT: &str = include_str!("page/inbox.js");

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(inbox))
        .route("/inbox.js", get(script))
        .route("/inbox/{id}", get(mail))
}

/// One line of the list.
#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    at: String,
    day: String,
    time: String,
    from: &'a str,
    to: String,
    subject: &'a str,
    tags: &'a [Tag],
    event: &'a str,
}

impl<'a> Line<'a> {
    fn of(sent: &'a Sent) -> Self {
        let (day, time) = day_and_time(sent.accepted_at);
        Self {
            id: &sent.id,
            at: sent.accepted_at.to_string(),
            day,
            time,
            from: &sent.mail.from,
            to: sent.mail.to.join(", "),
            subject: &sent.mail.subject,
            tags: &sent.mail.tags,
            event: &sent.last_event,
        }
    }
}

#[derive(Deserialize)]
struct InboxQuery {
    before: Option<String>,
}

async fn inbox(State(shared): State<Arc<Shared>>, Query(query): Query<InboxQuery>, headers: HeaderMap) -> Response {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or("127.0.0.1:8025");
    let view = list_view(&mut shared.model(), query.before.as_deref(), host);
    render("inbox.html", include_str!("page/inbox.html"), view)
}

fn list_view(model: &mut Model, before: Option<&str>, host: &str) -> Value {
    let rules = model.faults().rules().iter().filter(|rule| !rule.is_used_up()).count();
    let news = model.news_counts();
    let ledger = model.ledger();
    // An id that is no longer there shows the newest page, not an error: the mail may have been forgotten meanwhile.
    let end = before
        .and_then(|id| ledger.index_of(id))
        .unwrap_or_else(|| ledger.sent().len());
    let start = end.saturating_sub(PAGE_MAILS);
    let lines: Vec<Line<'_>> = ledger.sent().range(start..end).rev().map(Line::of).collect();
    let older = if start > 0 {
        lines.last().map(|line| line.id)
    } else {
        None
    };
    context! {
        older,
        mails => Serde(&lines),
        live => before.is_none(),
        counts => Serde(ledger.counts()),
        news => Serde(news),
        rules,
        host,
    }
}

async fn mail(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Response {
    let view = shared.model().ledger().find(&id).map(mail_view);
    match view {
        Some(view) => render("mail.html", include_str!("page/mail.html"), view),
        None => {
            let mut response = render("gone.html", include_str!("page/gone.html"), context! {});
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    }
}

fn mail_view(sent: &Sent) -> Value {
    let mail = &sent.mail;
    context! {
        line => Serde(Line::of(sent)),
        cc => mail.cc.join(", "),
        bcc => mail.bcc.join(", "),
        reply_to => mail.reply_to.join(", "),
        key => sent.idempotency_key.clone(),
        sha256 => sent.body_sha256.clone(),
        scheduled_at => mail.scheduled_at.clone(),
        headers => Serde(&mail.headers),
        attachments => Serde(&mail.attachments),
        html => mail.html.clone(),
        // The frame may open windows and nothing else, so links must ask for one.
        frame => mail.html.as_ref().map(|html| format!("<!doctype html><base target=\"_blank\">{html}")),
        text => mail.text.clone(),
    }
}

async fn script() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT).into_response()
}

/// Renders a page. Names that end in `.html` are escaped; that is minijinja's rule, and the tests hold it.
fn render(name: &str, source: &str, view: Value) -> Response {
    let mut environment = Environment::new();
    let added = environment
        .add_template_owned("layout.html", include_str!("page/layout.html").to_owned())
        .and_then(|()| environment.add_template_owned(name.to_owned(), source.to_owned()));
    match added.and_then(|()| environment.get_template(name)?.render(view)) {
        Ok(html) => {
            let mut response = axum::response::Html(html).into_response();
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the page could not be drawn: {error}"),
        )
            .into_response(),
    }
}

/// `2026-11-30` and `08:17:33`, in UTC.
fn day_and_time(at: Millis) -> (String, String) {
    match jiff::Timestamp::from_millisecond(at.get()) {
        Ok(timestamp) => (
            timestamp.strftime("%Y-%m-%d").to_string(),
            timestamp.strftime("%H:%M:%S").to_string(),
        ),
        Err(_) => (at.to_string(), String::new()),
    }
}
