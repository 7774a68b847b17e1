//! Ctrl-C ends a run in order: what was begun is ended, counted and written down. A second one ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};

/// How a program ends that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// Whether somebody asked this process to stop. Listens from the first call on.
#[cfg(unix)]
pub fn asked() -> &'static AtomicBool {
    use tokio::signal::unix::{SignalKind, signal};

    static ASKED: AtomicBool = AtomicBool::new(false);
    static LISTENING: std::sync::Once = std::sync::Once::new();
    LISTENING.call_once(|| {
        std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime for signals").block_on(async {
                let mut interrupt = signal(SignalKind::interrupt()).expect("a handler for Ctrl-C");
                let mut terminate = signal(SignalKind::terminate()).expect("a handler for SIGTERM");
                let mut interrupts = 0;
                // A terminal sends one signal and the script that started us may send the other: that is one request.
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => interrupts += 1,
                        _ = terminate.recv() => {}
                    }
                    ASKED.store(true, Ordering::Relaxed);
                    if interrupts > 1 {
                        std::process::exit(i32::from(INTERRUPTED));
                    }
                }
            });
        });
    });
    &ASKED
}

/// Elsewhere the platform ends the process by itself; a ledger survives that.
#[cfg(not(unix))]
pub fn asked() -> &'static AtomicBool {
    static NEVER: AtomicBool = AtomicBool::new(false);
    &NEVER
}

/// Whether a run was interrupted.
pub fn was_asked() -> bool {
    asked().load(Ordering::Relaxed)
}
