//! Streams over HTTP: which connection a baton names, and for how long.
//!
//! A baton is 16 bytes of identity (stream and sequence number) with an HMAC-SHA256 over them under a key of this
//! process. Every answer carries a new one; a used, foreign or outdated baton is refused in the real server's words.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::clock::EngineClock;
use super::failure::Refusal;
use super::program::Stored;
use super::session::Session;
use crate::outbox::time::Millis;

/// How long a stream lives without a request.
pub const IDLE_MS_MAX: u64 = 10_000;

/// How long an expired stream is remembered, so that its client gets the clearer error.
const EXPIRED_MS_KEPT: u64 = 300_000;

/// How many connections are open at once; the real server's default.
pub const CONNECTIONS_MAX: usize = 128;

/// How long a request waits for a free connection.
const CONNECTION_WAIT_MS_MAX: u64 = 1_000;

/// How often such a wait looks at the clock.
const LOOK_MS: u64 = 10;

/// All streams of a server.
pub(super) struct Streams {
    key: [u8; 32],
    table: Mutex<Table>,
    freed: Condvar,
}

#[derive(Default)]
struct Table {
    handles: HashMap<u64, Handle>,
    /// Connections in use: streams that are available or taken by a request.
    open: usize,
}

enum Handle {
    /// Waits for its next request.
    Available { stream: Stream, idle_since: Millis },
    /// A request works on it.
    Taken,
    /// Its connection is closed; the entry only serves the error.
    Expired { at: Millis },
}

struct Stream {
    id: u64,
    /// What the next baton must carry.
    sequence: u64,
    /// `None` after `close`.
    session: Option<Arc<Mutex<Session>>>,
    stored: Stored,
}

/// A stream in the hands of one request. Dropped without [`Taken::give_back`], it closes the stream.
pub(super) struct Taken<'a> {
    streams: &'a Streams,
    stream: Stream,
    given_back: bool,
}

impl Streams {
    /// An empty table with a fresh key.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self {
            key,
            table: Mutex::default(),
            freed: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream that the baton names, or a new one where there is no baton.
    ///
    /// `open` makes the connection of a new stream from its number.
    pub(super) fn take(
        &self,
        baton: Option<&str>,
        clock: &dyn EngineClock,
        open: impl FnOnce(u64) -> Result<Arc<Mutex<Session>>, Refusal>,
    ) -> Result<Taken<'_>, Refusal> {
        self.expire(clock.now());
        let stream = match baton {
            Some(baton) => self.resume(baton)?,
            None => self.start(clock, open)?,
        };
        Ok(Taken {
            streams: self,
            stream,
            given_back: false,
        })
    }

    fn resume(&self, baton: &str) -> Result<Stream, Refusal> {
        let invalid = || Refusal::Protocol("Received an invalid baton".to_owned());
        let used = || Refusal::Protocol("Received a baton that has already been used".to_owned());
        let (id, sequence) = self.open_baton(baton).ok_or_else(invalid)?;
        let mut table = self.lock();
        let Some(handle) = table.handles.get_mut(&id) else {
            return Err(invalid());
        };
        match std::mem::replace(handle, Handle::Taken) {
            Handle::Available { mut stream, .. } if stream.sequence == sequence => {
                stream.sequence = stream.sequence.wrapping_add(1);
                Ok(stream)
            }
            Handle::Expired { at } => {
                *handle = Handle::Expired { at };
                Err(Refusal::StreamExpired)
            }
            kept @ (Handle::Available { .. } | Handle::Taken) => {
                *handle = kept;
                Err(used())
            }
        }
    }

    fn start(
        &self,
        clock: &dyn EngineClock,
        open: impl FnOnce(u64) -> Result<Arc<Mutex<Session>>, Refusal>,
    ) -> Result<Stream, Refusal> {
        let asked = clock.now();
        let mut table = self.lock();
        while table.open >= CONNECTIONS_MAX {
            if clock.now().since(asked) >= Duration::from_millis(CONNECTION_WAIT_MS_MAX) {
                return Err(Refusal::NoConnection);
            }
            table = self
                .freed
                .wait_timeout(table, Duration::from_millis(LOOK_MS))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        table.open += 1;
        drop(table);
        let made = random()
            .and_then(|id| random().map(|sequence| (id, sequence)))
            .and_then(|(id, sequence)| {
                Ok(Stream {
                    id,
                    sequence,
                    session: Some(open(id)?),
                    stored: Stored::new(),
                })
            });
        let mut table = self.lock();
        match made {
            Ok(stream) => {
                table.handles.insert(stream.id, Handle::Taken);
                Ok(stream)
            }
            Err(refusal) => {
                table.open = table.open.saturating_sub(1);
                Err(refusal)
            }
        }
    }

    /// Closes what was idle for too long and forgets what expired long ago.
    fn expire(&self, now: Millis) {
        let mut closed = Vec::new();
        let mut table = self.lock();
        for handle in table.handles.values_mut() {
            if let Handle::Available { idle_since, .. } = handle
                && now.since(*idle_since) >= Duration::from_millis(IDLE_MS_MAX)
            {
                closed.push(std::mem::replace(handle, Handle::Expired { at: now }));
            }
        }
        table.open = table.open.saturating_sub(closed.len());
        table.handles.retain(|_, handle| match handle {
            Handle::Expired { at } => now.since(*at) < Duration::from_millis(EXPIRED_MS_KEPT),
            Handle::Available { .. } | Handle::Taken => true,
        });
        drop(table);
        self.freed.notify_all();
        // Closing a connection rolls back and may touch the disk: not under the table's lock.
        drop(closed);
    }

    /// Closes every stream that no request works on.
    pub(super) fn close_idle(&self) {
        let mut table = self.lock();
        let (kept, closed): (HashMap<_, _>, HashMap<_, _>) = std::mem::take(&mut table.handles)
            .into_iter()
            .partition(|(_, handle)| matches!(handle, Handle::Taken));
        let idle = closed
            .values()
            .filter(|handle| matches!(handle, Handle::Available { .. }))
            .count();
        table.handles = kept;
        table.open = table.open.saturating_sub(idle);
        drop(table);
        self.freed.notify_all();
        drop(closed);
    }

    fn mac(&self, identity: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(identity);
        Some(mac)
    }

    fn seal_baton(&self, id: u64, sequence: u64) -> Option<String> {
        let mut bytes = Vec::with_capacity(48);
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&sequence.to_be_bytes());
        let tag = self.mac(&bytes)?.finalize().into_bytes();
        bytes.extend_from_slice(&tag);
        Some(BASE64_STANDARD_NO_PAD.encode(bytes))
    }

    fn open_baton(&self, baton: &str) -> Option<(u64, u64)> {
        let bytes = BASE64_STANDARD_NO_PAD.decode(baton).ok()?;
        let (identity, tag) = bytes.split_at_checked(16)?;
        self.mac(identity)?.verify_slice(tag).ok()?;
        let (id, sequence) = identity.split_first_chunk::<8>()?;
        let sequence = sequence.first_chunk::<8>()?;
        Some((u64::from_be_bytes(*id), u64::from_be_bytes(*sequence)))
    }
}

impl Taken<'_> {
    /// The connection, unless this request or an earlier one of the pipeline closed it.
    pub(super) fn session(&self) -> Result<Arc<Mutex<Session>>, Refusal> {
        self.stream
            .session
            .as_ref()
            .map(Arc::clone)
            .ok_or_else(|| Refusal::Protocol("Stream for this baton was closed".to_owned()))
    }

    /// Closes the connection; an open transaction is rolled back.
    pub(super) fn close(&mut self) {
        self.stream.session = None;
    }

    /// The texts that the stream keeps.
    pub(super) fn stored(&self) -> &Stored {
        &self.stream.stored
    }

    /// The texts that the stream keeps, to change them.
    pub(super) fn stored_mut(&mut self) -> &mut Stored {
        &mut self.stream.stored
    }

    /// Ends the request. The baton for the next one; `None` where the stream was closed.
    pub(super) fn give_back(mut self, now: Millis) -> Option<String> {
        let session = self.stream.session.take()?;
        let stream = Stream {
            id: self.stream.id,
            sequence: self.stream.sequence,
            session: Some(session),
            stored: std::mem::take(&mut self.stream.stored),
        };
        let baton = self.streams.seal_baton(stream.id, stream.sequence);
        let idle_since = now;
        let mut table = self.streams.lock();
        table
            .handles
            .insert(stream.id, Handle::Available { stream, idle_since });
        drop(table);
        self.given_back = true;
        baton
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.given_back {
            return;
        }
        // The connection first, outside the table's lock: it may have a transaction to roll back.
        self.stream.session = None;
        let mut table = self.streams.lock();
        table.handles.remove(&self.stream.id);
        table.open = table.open.saturating_sub(1);
        drop(table);
        self.streams.freed.notify_all();
    }
}

fn random() -> Result<u64, Refusal> {
    getrandom::u64().map_err(|error| Refusal::Internal(error.to_string()))
}
