// What the end-to-end tests ask again and again: intents to send, and whether each became exactly one mail.
import assert from 'node:assert/strict';
import { until } from './harness.mjs';

/** States that nothing leaves by itself. */
const SETTLED = ['sent', 'failed', 'suppressed', 'expired', 'canceled', 'external', 'shadowed', 'dead_letter', 'unknown'];

/**
 * Times for tests that wait for leases, retries and the relay: the shortest that the rules between them allow. The
 * requests of one batch all run at once, so that the lease needs to hold one call only.
 */
export const SHORT = {
  PROVIDER_TIMEOUT_MS: 1_500,
  DATABASE_TIMEOUT_MS: 1_500,
  CALLS_AT_ONCE: 100,
  PACE_PER_SECOND: 0,
  PACE_PER_DOMAIN_PER_MINUTE: 0,
  PACE_WAIT_MS: 0,
  CLOCK_SKEW_MS: 0,
  LEASE_MS: 5_500,
  BACKOFF_BASE_MS: 10,
  PENDING_GRACE_MS: 500,
  ENQUEUED_PATIENCE_MS: 1_000,
  TICK_MS: 10,
  PAUSE_MS: 100,
  SUBREQUEST_BUDGET: 1_000,
  LONE_DEATHS_MAX: 20,
};

/** Production's own times, without a pace: for tests that count and wait for nothing. */
export const UNPACED = { CALLS_AT_ONCE: 100, PACE_PER_SECOND: 0, PACE_PER_DOMAIN_PER_MINUTE: 0, SUBREQUEST_BUDGET: 1_000 };

/** `count` intents with ready content, their keys beginning with `name`. */
export function notices(name, count) {
  return Array.from({ length: count }, (_, index) => ({
    family: 'notice',
    idempotencyKey: `${name}-${index}`,
    to: `${name}-${index}@example.org`,
    content: { subject: `Number ${index} of ${name}`, text: 'Good news.' },
  }));
}

/** An intent whose mail a template writes. */
export function invitation(name) {
  return {
    family: 'invitation',
    key: { invitationId: name },
    to: `${name}@example.org`,
    data: { company: 'Example', inviterName: 'Ada', programme: 'the programme', acceptUrl: 'https://example.org/accept' },
  };
}

/** Records intents, and returns their ids. */
export async function record(stack, intents) {
  const { status, body } = await stack.intents(intents);
  assert.equal(status, 202, JSON.stringify(body));
  return body.intents.map((intent) => intent.id);
}

/** The rows with these ids, in their order of recording. */
export async function rowsOf(stack, ids) {
  return stack.sql(
    `SELECT id, status, cause, claim_count, attempt_count, doubts, idempotency_key, provider_message_id, last_error
     FROM outbox WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY seq`,
    [JSON.stringify(ids)],
  );
}

/** How many of the rows are in each state: `{ sent: 3 }`. */
export async function states(stack, ids) {
  const counts = {};
  for (const { status } of await rowsOf(stack, ids)) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** Waits until no row is open any more. With `ticks` the schedule is fired meanwhile, as production does each minute. */
export async function settled(stack, ids, { ticks = false, timeoutMs } = {}) {
  const check = async () => {
    if (ticks) await stack.tick();
    const counts = await states(stack, ids);
    if (Object.keys(counts).every((state) => SETTLED.includes(state))) return true;
    throw new Error(JSON.stringify(counts));
  };
  await until(check, { what: `all ${ids.length} rows are settled`, timeoutMs });
}

/**
 * Every row is sent; the provider let exactly one mail out for each key; whatever it saw under one key was the same
 * bytes; and the row holds the id of that mail.
 */
export async function assertSentOnce(stack, ids) {
  const rows = await rowsOf(stack, ids);
  assert.equal(rows.length, ids.length, 'every intent has its row');
  assert.deepEqual(rows.filter((row) => row.status !== 'sent'), [], 'every row is sent');
  const accepted = Map.groupBy(await stack.accepted(), (mail) => mail.idempotencyKey);
  const requests = Map.groupBy(await stack.requests(), (request) => request.idempotencyKey);
  for (const { idempotency_key: key, provider_message_id: messageId } of rows) {
    assert.deepEqual(accepted.get(key)?.map((mail) => mail.id), [messageId], 'one mail, and the row names it');
    assert.equal(new Set(requests.get(key).map((request) => request.bodySha256)).size, 1, 'the same bytes every time');
  }
}

/** The notes that the Worker wrote: the JSON in each line, whatever the local runtime paints around it. */
export function notesOf(log) {
  return log.split('\n').flatMap((line) => {
    const json = line.match(/\{".*\}/)?.[0];
    try {
      return json === undefined ? [] : [JSON.parse(json)];
    } catch {
      return [];
    }
  });
}
