//! The protocol over the embedded engine, without HTTP: bytes in, status and bytes out.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::answer::{Answer, batch_of, body_of, cursor_lines, decode, json, line, refused};
use super::clock::EngineClock;
use super::failure::{Refusal, StatementError};
use super::program::{self, Injected, Unready};
use super::proto::{
    CursorEntry, CursorRequest, CursorResponse, PipelineRequest, PipelineResponse, StreamRequest, StreamResponse,
    StreamResult, Value, Version,
};
use super::session::{Run, Session, Stop};
use super::streams::{Streams, Taken};
use super::writer::Writer;

/// The rows of one `execute` or of one batch, by the real server's estimate of their JSON.
pub const RESPONSE_BYTES_MAX: u64 = 10_000_000;

/// The rows of one cursor. The real server streams them without a limit; this one holds them in memory.
const CURSOR_BYTES_MAX: u64 = 100_000_000;

/// How many texts a stream keeps.
const STORED_MAX: usize = 50;

/// How long a kept text may be.
const STORED_BYTES_MAX: usize = 5_000;

/// Rows that all statements read and wrote since the start, as the engine counts them (and Turso bills them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Rows read: every row that the statements visited, not only those returned.
    pub read: u64,
    /// Rows written, indexes included.
    pub written: u64,
}

/// Why the database could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder of the file is missing or cannot be written.
    #[error("database_folder_unusable")]
    Folder(#[source] std::io::Error),
    /// The file is no database, or another process holds it.
    #[error("database_file_unusable")]
    File(#[source] libsql::Error),
    /// The machine gave no randomness for the batons' key.
    #[error("randomness_unavailable")]
    Randomness(#[source] getrandom::Error),
}

/// Why the database could not be emptied.
#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    /// A statement failed.
    #[error("database_not_cleared")]
    Statement(#[source] StatementError),
    /// There was no connection for it.
    #[error("database_not_reached")]
    Refused(#[source] Refusal),
}

/// One database, its streams and its queue of writers. All calls block: inside a runtime, call from a blocking thread.
pub struct Engine {
    file: PathBuf,
    /// Opened first and closed last. Opening through `libsql` also sets the engine's threading mode for the process.
    _keeper: libsql::Connection,
    clock: Arc<dyn EngineClock>,
    streams: Streams,
    writer: Arc<Writer>,
    rows_read: AtomicU64,
    rows_written: AtomicU64,
    /// The folder of a database that does not outlive this value.
    _temporary: Option<tempfile::TempDir>,
}

impl Engine {
    /// Opens the file, which is made where it does not exist, or a temporary one.
    ///
    /// # Errors
    /// [`OpenError`] names the part that failed.
    pub async fn open(file: Option<&Path>, clock: Arc<dyn EngineClock>) -> Result<Self, OpenError> {
        let (file, temporary) = match file {
            Some(file) => (file.to_owned(), None),
            None => {
                let folder = tempfile::tempdir().map_err(OpenError::Folder)?;
                (folder.path().join("sealpost.db"), Some(folder))
            }
        };
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder).map_err(OpenError::Folder)?;
        }
        let database = libsql::Builder::new_local(&file)
            .build()
            .await
            .map_err(OpenError::File)?;
        let keeper = database.connect().map_err(OpenError::File)?;
        // Readers and the writer do not block each other; the mode stays with the file.
        keeper
            .query("PRAGMA journal_mode = WAL", ())
            .await
            .map_err(OpenError::File)?;
        Ok(Self {
            file,
            _keeper: keeper,
            clock,
            streams: Streams::new().map_err(OpenError::Randomness)?,
            writer: Arc::default(),
            rows_read: AtomicU64::new(0),
            rows_written: AtomicU64::new(0),
            _temporary: temporary,
        })
    }

    /// The database's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Answers `POST /v2/pipeline` and `POST /v3/pipeline`.
    pub fn pipeline(&self, version: Version, body: &[u8]) -> Answer {
        match decode(body) {
            Ok(request) => self.run_pipeline(version, request, Injected::default()),
            Err(refusal) => refused(&refusal),
        }
    }

    /// Answers a pipeline that was read before.
    pub fn run_pipeline(&self, version: Version, request: PipelineRequest, injected: Injected) -> Answer {
        let answer = self.try_pipeline(version, request, injected);
        answer.unwrap_or_else(|refusal| refused(&refusal))
    }

    /// Answers `POST /v3/cursor`, with all entries at once.
    pub fn cursor(&self, body: &[u8]) -> Answer {
        decode(body)
            .and_then(|request| self.try_cursor(&request))
            .unwrap_or_else(|refusal| refused(&refusal))
    }

    /// Rows read and written since the start.
    pub fn rows(&self) -> Rows {
        Rows {
            read: self.rows_read.load(Ordering::Relaxed),
            written: self.rows_written.load(Ordering::Relaxed),
        }
    }

    fn take(&self, baton: Option<&str>) -> Result<Taken<'_>, Refusal> {
        self.streams.take(baton, self.clock.as_ref(), |id| {
            Session::open(id, &self.file, Arc::clone(&self.writer), Arc::clone(&self.clock))
                .map_err(|error| Refusal::Internal(error.to_string()))
        })
    }

    fn try_pipeline(&self, version: Version, request: PipelineRequest, injected: Injected) -> Result<Answer, Refusal> {
        let mut taken = self.take(request.baton.as_deref())?;
        let mut results = Vec::with_capacity(request.requests.len());
        for request in request.requests {
            let result = match self.respond(&mut taken, version, request, injected) {
                Ok(response) => StreamResult::Ok { response },
                Err(Unready::Statement(error)) => StreamResult::Error { error: body_of(&error) },
                Err(Unready::Refused(refusal)) => return Err(refusal),
            };
            results.push(result);
        }
        json(
            200,
            &PipelineResponse {
                baton: taken.give_back(self.clock.now()),
                base_url: None,
                results,
            },
        )
    }

    fn respond(
        &self,
        taken: &mut Taken<'_>,
        version: Version,
        request: StreamRequest,
        injected: Injected,
    ) -> Result<StreamResponse, Unready> {
        Ok(match request {
            StreamRequest::Close {} => {
                taken.close();
                StreamResponse::Close
            }
            StreamRequest::Execute { stmt } => {
                let session = taken.session()?;
                let query = program::query_of(&stmt, taken.stored())?;
                let run = program::run_one(&session, query, injected, RESPONSE_BYTES_MAX)?;
                self.count(&run);
                StreamResponse::Execute {
                    result: run.into_result()?,
                }
            }
            StreamRequest::Batch { batch } => {
                let session = taken.session()?;
                let steps = program::steps_of_batch(&batch, taken.stored(), version)?;
                let runs = program::run(&session, &steps, injected, RESPONSE_BYTES_MAX)?;
                runs.iter().flatten().for_each(|run| self.count(run));
                StreamResponse::Batch { result: batch_of(runs) }
            }
            StreamRequest::Sequence(text) => {
                let session = taken.session()?;
                let steps = program::steps_of_script(program::text_of(&text, taken.stored())?)?;
                let runs = program::run(&session, &steps, injected, RESPONSE_BYTES_MAX)?;
                for run in runs.into_iter().flatten() {
                    self.count(&run);
                    run.end?;
                }
                StreamResponse::Sequence
            }
            StreamRequest::Describe(text) => {
                let session = taken.session()?;
                let sql = program::text_of(&text, taken.stored())?;
                let result = Session::lock(&session).describe(sql)??;
                StreamResponse::Describe { result }
            }
            StreamRequest::StoreSql { sql_id, sql } => {
                store(taken, sql_id, sql)?;
                StreamResponse::StoreSql
            }
            StreamRequest::CloseSql { sql_id } => {
                taken.stored_mut().remove(&sql_id);
                StreamResponse::CloseSql
            }
            StreamRequest::GetAutocommit {} => match version {
                Version::Hrana2 => {
                    return Err(protocol(
                        "The `get_autocommit` request is only supported in protocol version hrana3 and higher",
                    ));
                }
                Version::Hrana3 => StreamResponse::GetAutocommit {
                    is_autocommit: Session::lock(&*taken.session()?).is_autocommit(),
                },
            },
        })
    }

    fn try_cursor(&self, request: &CursorRequest) -> Result<Answer, Refusal> {
        let taken = self.take(request.baton.as_deref())?;
        let session = taken.session()?;
        let steps = match program::steps_of_batch(&request.batch, taken.stored(), Version::Hrana3) {
            Ok(steps) => steps,
            // So does the real server: it has no line for an error before the first step.
            Err(Unready::Statement(error)) => return Err(Refusal::Internal(format!("Internal Error: `{error}`"))),
            Err(Unready::Refused(refusal)) => return Err(refusal),
        };
        let runs = program::run(&session, &steps, Injected::default(), CURSOR_BYTES_MAX);
        let mut body = Vec::new();
        line(
            &mut body,
            &CursorResponse {
                baton: taken.give_back(self.clock.now()),
                base_url: None,
            },
        )?;
        match runs {
            Ok(runs) => {
                for (step, run) in runs.into_iter().enumerate() {
                    if let Some(run) = run {
                        self.count(&run);
                        cursor_lines(&mut body, step, run)?;
                    }
                }
                let replication_index = None;
                line(&mut body, &CursorEntry::ReplicationIndex { replication_index })?;
            }
            Err(Stop::TooLarge) => {
                let error = body_of(&StatementError::ResponseTooLarge);
                line(&mut body, &CursorEntry::Error { error })?;
            }
            Err(Stop::Refused(refusal)) => return Err(refusal),
        }
        Ok(Answer {
            status: 200,
            content_type: "text/plain",
            body,
        })
    }

    fn count(&self, run: &Run) {
        if let Ok(end) = &run.end {
            self.rows_read.fetch_add(end.rows_read, Ordering::Relaxed);
            self.rows_written.fetch_add(end.rows_written, Ordering::Relaxed);
        }
    }

    /// Drops every table, view, index and trigger, and closes the idle streams. It waits for its turn to write.
    ///
    /// # Errors
    /// [`ClearError`] where no connection was free or an object could not be dropped; nothing is dropped then.
    pub fn clear(&self) -> Result<(), ClearError> {
        self.streams.close_idle();
        self.drop_all().map_err(|unready| match unready {
            Unready::Statement(error) => ClearError::Statement(error),
            Unready::Refused(refusal) => ClearError::Refused(refusal),
        })
    }

    fn drop_all(&self) -> Result<(), Unready> {
        // Views first, then virtual tables (which take their shadow tables along), then the rest.
        const NEXT: &str = "SELECT 'DROP ' || type || ' \"' || replace(name, '\"', '\"\"') || '\"' FROM sqlite_schema \
            WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!' \
            ORDER BY type = 'table', sql NOT LIKE 'CREATE VIRTUAL%' LIMIT 1";
        let taken = self.take(None)?;
        let session = taken.session()?;
        let run = |sql: &str| -> Result<Option<Run>, Unready> {
            let steps = program::steps_of_script(sql)?;
            let mut last = None;
            for run in program::run(&session, &steps, Injected::default(), RESPONSE_BYTES_MAX)? {
                let Some(run) = run else { break };
                run.end.clone()?;
                last = Some(run);
            }
            Ok(last)
        };
        run("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE")?;
        while let Some(Value::Text { value }) = run(NEXT)?.and_then(Run::into_first_value) {
            run(&value)?;
        }
        run("PRAGMA user_version = 0; COMMIT")?;
        Ok(())
    }
}

fn store(taken: &mut Taken<'_>, id: i32, sql: String) -> Result<(), Unready> {
    let stored = taken.stored_mut();
    if stored.contains_key(&id) {
        return Err(protocol(&format!("SQL text {id} already exists")));
    }
    if stored.len() >= STORED_MAX {
        return Err(StatementError::StoreTooMany { count: stored.len() }.into());
    }
    if sql.len() > STORED_BYTES_MAX {
        return Err(StatementError::StoreTooLarge {
            bytes: sql.len(),
            limit_bytes: STORED_BYTES_MAX,
        }
        .into());
    }
    stored.insert(id, sql);
    Ok(())
}

fn protocol(text: &str) -> Unready {
    Unready::Refused(Refusal::Protocol(text.to_owned()))
}
