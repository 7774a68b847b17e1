// The queue between the steps: it refuses, it brings what nobody understands, it gives up; and a Worker that is set up
// wrongly, or without its database, loses none of its messages.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { SHORT, assertSentOnce, notesOf, notices, record, rowsOf, settled, states } from './checks.mjs';
import { startStack, until } from './harness.mjs';

/** A message gets two deliveries, then the dead-letter queue has it. */
const CONSUMERS = { max_retries: 1 };

let stack;
before(async () => {
  stack = await startStack({ vars: SHORT, consumers: CONSUMERS, door: true });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

const envelope = (outboxId) => ({ type: 'text', body: JSON.stringify({ kind: 'sealpost-outbox', version: 1, outboxId }) });

/** How often the Worker has written a note so far. */
const noted = (code) => notesOf(stack.workerLog()).filter((note) => note.code === code).length;

test('the queue refuses: the request is accepted all the same, and the relay publishes when it takes again', async () => {
  await stack.knock('queue', { refuse: true });
  const intents = notices('refused', 3);
  const ids = await record(stack, intents);
  await until(() => noted('publish_refused') > 0, { what: 'the publication is refused' });
  assert.deepEqual(await states(stack, ids), { pending: 3 });
  const again = await stack.intents(intents);
  assert.deepEqual(again.body.intents.map(({ id, duplicate }) => ({ id, duplicate })), ids.map((id) => ({ id, duplicate: true })));
  await until(
    async () => {
      await stack.tick();
      return (await stack.fetch('/health')).body.troubles.includes('queue_refuses');
    },
    { what: 'health tells that the queue refuses' },
  );
  assert.deepEqual(await states(stack, ids), { pending: 3 });
  await stack.knock('queue', { refuse: false });
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
  assert.deepEqual((await rowsOf(stack, ids)).map((row) => row.attempt_count), [1, 1, 1]);
  await stack.tick();
  assert.ok(!(await stack.fetch('/health')).body.troubles.includes('queue_refuses'));
});

test('unreadable messages among good ones are parked, and the good ones are sent', async () => {
  await stack.knock('queue', { refuse: true });
  const ids = await record(stack, notices('poisoned', 2));
  await stack.knock('queue', { refuse: false });
  await stack.knock('send', [
    envelope(ids[0]),
    { type: 'json', body: null },
    { type: 'json', body: 'text' },
    { type: 'json', body: { v: 99, id: 'x' } },
    { type: 'bytes', body: [0xff, 0x00, 0x7b] },
    { type: 'v8', body: { kind: 'sealpost-outbox', version: 1, outboxId: ids[0] } },
    { type: 'text', body: '{"kind":"sealpost-outbox","version":99,"outboxId":"ntc_x"}' },
    { type: 'text', body: '{"kind":"of another program","version":1}' },
    envelope(`ntc_${'0'.repeat(26)}`),
    envelope(ids[1]),
  ]);
  await settled(stack, ids);
  await assertSentOnce(stack, ids);
  // A message of its own in the next batch: what was retried would have come again with it or before it.
  await settled(stack, await record(stack, notices('after-poison', 1)));
  const parked = await stack.sql('SELECT reason, times FROM parking ORDER BY reason');
  assert.deepEqual(
    parked.map(({ reason }) => reason),
    // Four bodies that are no texts, each kept with what it held.
    ['envelope_kind_unknown', ...Array(4).fill('envelope_not_text'), 'envelope_unreadable', 'envelope_version_unknown', 'envelope_without_row'],
  );
  assert.deepEqual(new Set(parked.map(({ times }) => times)), new Set([1]), 'each was acknowledged once it was kept');
});

test('an unreadable message that cannot be parked comes again', async () => {
  await stack.sql('DELETE FROM parking');
  await stack.faults.database([{ kind: 'refuse', match: 'INSERT INTO parking', count: 3 }]);
  await stack.knock('send', [{ type: 'text', body: 'not an envelope' }]);
  await until(async () => (await stack.sql('SELECT body FROM parking'))[0]?.body === 'not an envelope', { what: 'it is parked in the end' });
});

test('the database is down during a batch: nothing is acknowledged, and all is sent later', async () => {
  // No tick is fired: only a message that was not acknowledged can bring these rows again.
  await stack.faults.database([{ kind: 'refuse', match: "cause = 'claimed'", count: 3 }]);
  const before = noted('claim_failed');
  const ids = await record(stack, notices('down', 10));
  await until(() => noted('claim_failed') > before, { what: 'the claim fails' });
  assert.deepEqual(await stack.requests(), []);
  await settled(stack, ids);
  await assertSentOnce(stack, ids);
});

test('the database is down during the settle: the same bytes go out again under the same key, and one mail stands', async () => {
  await stack.faults.database([{ kind: 'bad_gateway', match: 'UPDATE attempts SET', count: -1 }]);
  const before = noted('settle_failed');
  const ids = await record(stack, notices('unsettled', 2));
  await until(async () => (await stack.accepted()).length === 2, { what: 'the provider has both' });
  // A database that is not there refuses every list alike: halving it would only ask again.
  await until(() => noted('settle_failed') > before, { what: 'the settle fails to its end' });
  await stack.database.clearFaults();
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
  assert.equal((await stack.requests()).filter(({ outcome }) => outcome === 'replayed').length, 2);
});

test('deliveries used up: the dead-letter queue gives the rows back to the relay, which brings them to their end', async () => {
  await stack.faults.database([
    { kind: 'refuse', match: "cause = 'claimed'", count: -1 },
    // The dead letter's own first delivery meets the same outage.
    { kind: 'refuse', match: "cause = 'queue_exhausted'", count: 3 },
  ]);
  const ids = await record(stack, notices('dead', 2));
  await until(async () => (await states(stack, ids)).retry === 2, { what: 'the rows are back with the relay' });
  assert.deepEqual(new Set((await rowsOf(stack, ids)).map(({ cause }) => cause)), new Set(['queue_exhausted']));
  assert.ok(noted('dead_letters_failed') > 0);
  assert.deepEqual(await stack.requests(), []);
  await stack.database.clearFaults();
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
  assert.deepEqual((await rowsOf(stack, ids)).map(({ attempt_count: tries }) => tries), [1, 1]);
});

test('missing configuration: the doors say what is missing, messages are retried, and with it all are sent', async () => {
  await stack.knock('queue', { refuse: true });
  const ids = await record(stack, notices('unconfigured', 3));
  await stack.killWorker('SIGTERM');
  await stack.startWorker({ ...SHORT, RESEND_API_KEY: undefined });
  const health = await stack.fetch('/health');
  assert.equal(health.status, 503);
  assert.equal(health.body.detail, 'RESEND_API_KEY is not set');
  const refused = await stack.intents(notices('refused-door', 1));
  assert.equal(refused.status, 503);
  assert.equal(refused.body.code, 'setting_missing');
  assert.ok(refused.headers.get('retry-after'));
  await stack.tick();
  const before = noted('configuration_invalid');
  // One message: several could be told of in one note each.
  await stack.knock('send', [envelope(ids[0])]);
  await until(() => noted('configuration_invalid') >= before + 2, { what: 'the message comes again' });
  assert.deepEqual(await states(stack, ids), { pending: 3 });
  await stack.killWorker('SIGTERM');
  await stack.startWorker(SHORT);
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
});

test('a queue that nobody named is not served by the wrong branch', async () => {
  await stack.killWorker('SIGTERM');
  await stack.startWorker({ ...SHORT, QUEUE_NAME: 'sealpost-other' });
  const ids = await record(stack, notices('unnamed', 1));
  await until(() => noted('queue_unknown') >= 2, { what: 'the mistake is told, and told again when the message comes again' });
  assert.deepEqual(await stack.requests(), []);
  await stack.killWorker('SIGTERM');
  await stack.startWorker(SHORT);
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
});
