//! Everything that touches Cloudflare. The only room that may import `worker`.

use worker::{Context, Env, Request, Response, Result, event};

#[event(fetch)]
async fn fetch(_request: Request, _env: Env, _ctx: Context) -> Result<Response> {
    Response::ok("sealpost")
}
