//! What `/health` counts for operators.

use serde_json::json;

use super::unknown::unknown_row;
use crate::support::{TestWorld, look, order};

#[tokio::test]
async fn health_counts_what_nobody_knows_until_somebody_decides() {
    let world = TestWorld::new().await;
    assert_eq!(look(&world, "/health").await.body["unknown"], 0);
    let id = unknown_row(&world).await;
    let health = look(&world, "/health").await.body;
    assert_eq!(health["unknown"], 1);
    let path = format!("/v1/unknown/{id}/resolve");
    let judged = order(
        &world,
        &path,
        &json!({ "verdict": "send_again", "note": "it must go out" }),
    )
    .await;
    assert_eq!(judged.status, 202);
    assert_eq!(world.status(&id).await, "unknown");
    assert_eq!(look(&world, "/health").await.body["unknown"], 0, "it no longer asks");
}
