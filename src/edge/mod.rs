//! Everything that touches Cloudflare. The only room that may import `worker`; it decides nothing.

mod broker;
mod clock;
mod http;
mod log;
mod net;
mod queue;
mod settings;
mod world;
mod zones;

use worker::{Context, Env, ScheduleContext, ScheduledEvent, event};

use crate::config::Config;
use crate::ports::{Field, Level, Log as _};
use crate::relay;

#[event(start)]
fn start() {
    console_error_panic_hook::set_once();
}

#[event(fetch)]
async fn fetch(request: worker::Request, env: Env, context: Context) -> worker::Result<worker::Response> {
    http::handle(request, env, context).await
}

/// The handler's own result is ignored by the platform, so whatever went wrong is in the note and in the health record.
#[event(scheduled)]
async fn scheduled(_event: ScheduledEvent, env: Env, _context: ScheduleContext) {
    match Config::read(&settings::of(&env)) {
        Ok(config) => {
            let broker = broker::QueueBroker::of(&env);
            relay::tick(&world::EdgeWorld::new(&config), &broker, &config).await;
        }
        Err(error) => {
            log::EdgeLog.note(
                Level::Alarm,
                "configuration_invalid",
                &[("error", Field::Code(error.code()))],
            );
        }
    }
}
