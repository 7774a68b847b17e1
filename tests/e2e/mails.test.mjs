// The main job in workerd: intents go in, one mail each comes out, in the round trips that the budget allows.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { UNPACED, assertSentOnce, notices, record, rowsOf, settled, states } from './checks.mjs';
import { startStack, until } from './harness.mjs';

let stack;
before(async () => {
  stack = await startStack({ vars: UNPACED, door: true });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

test('250 intents in three requests become 250 mails', async () => {
  const all = notices('many', 250);
  const ids = [];
  for (const part of [all.slice(0, 100), all.slice(100, 200), all.slice(200)]) ids.push(...(await record(stack, part)));
  await settled(stack, ids);
  await assertSentOnce(stack, ids);
  assert.equal((await stack.accepted()).length, 250);
  assert.equal((await stack.requests()).length, 250);
});

test('a duplicate request answers with the first ids and sends no second mail', async () => {
  const intents = notices('twice', 3);
  const ids = await record(stack, intents);
  const again = await stack.intents(intents);
  assert.equal(again.status, 202);
  assert.deepEqual(again.body.intents.map(({ id, duplicate }) => ({ id, duplicate })), ids.map((id) => ({ id, duplicate: true })));
  await settled(stack, ids);
  const late = await stack.intents(intents);
  assert.deepEqual(late.body.intents.map(({ id, status }) => ({ id, status })), ids.map((id) => ({ id, status: 'sent' })));
  // A message for a duplicate would be consumed after those of this row: once it is sent, none is under way.
  const behind = await record(stack, notices('behind', 1));
  await settled(stack, behind);
  await assertSentOnce(stack, ids);
  assert.equal((await stack.accepted()).length, 4);
});

test('another meaning under a known key is refused, and nothing of the request is recorded', async () => {
  const [first, second] = notices('meaning', 2);
  await settled(stack, await record(stack, [first]));
  const refused = await stack.intents([second, { ...first, to: 'someone-else@example.org' }]);
  assert.equal(refused.status, 409);
  assert.equal(refused.body.code, 'key_known_with_other_meaning');
  assert.deepEqual(refused.body.errors.map(({ path }) => path), ['/intents/1']);
  const [id] = await record(stack, [second]);
  await settled(stack, [id]);
  assert.equal((await rowsOf(stack, [id]))[0].status, 'sent');
});

test('round trips do not grow with the batch: 1, 10 and 100 messages', async () => {
  const spent = {};
  for (const count of [1, 10, 100]) {
    await stack.database.resetCounters();
    const ids = await record(stack, notices(`trips${count}`, count));
    await settled(stack, ids);
    spent[count] = await stack.workerRequests();
  }
  // Intake, mark; claim, open, settle.
  assert.deepEqual(spent, { 1: 5, 10: 5, 100: 5 });
});

test('round trips do not grow with duplicates, suppressed recipients and a bad row in the batch', async () => {
  // One message is held at its claim, so that all that follows is in the queue together and comes as one batch.
  await stack.faults.database([{ kind: 'hold_before', match: "cause = 'claimed'" }]);
  const first = await record(stack, notices('first', 1));
  await until(async () => (await stack.database.faultsNow()).held === 1, { what: 'the first claim is held' });
  const ids = await record(stack, notices('mixed', 85));
  await stack.knock('send', ids.slice(10, 20).map((id) => ({ type: 'text', body: JSON.stringify({ kind: 'sealpost-outbox', version: 1, outboxId: id }) })));
  const [suppressed, bad, good] = [ids.slice(0, 5), ids.slice(5, 6), ids.slice(6)];
  await stack.sql(
    `INSERT INTO suppressions (recipient_hash, family, reason, created_at)
     SELECT recipient_hash, '*', 'test', 1 FROM outbox WHERE id IN (SELECT value FROM json_each(?1))`,
    [JSON.stringify(suppressed)],
  );
  await stack.sql(`UPDATE letters SET body = '{"unreadable":' WHERE outbox_id = ?1`, bad);
  await until(async () => (await states(stack, ids)).enqueued === ids.length, { what: 'the publication is marked' });
  await stack.database.resetCounters();
  await stack.database.release();
  await settled(stack, [...first, ...ids]);
  assert.deepEqual(await states(stack, suppressed), { suppressed: 5 });
  assert.deepEqual(await states(stack, bad), { dead_letter: 1 });
  await assertSentOnce(stack, [...first, ...good]);
  // What was left of the first batch, open and settle, and the three of the mixed one.
  assert.equal(await stack.workerRequests(), 5);
});

test('hostile input panics nowhere: the same instance answers and sends right after each piece', async () => {
  const huge = '99999999999999999999';
  const [good] = notices('hostile', 1);
  const bodies = [
    '{"intents": [',
    '\u0000',
    `{"intents": ${huge}}`,
    `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
    { intents: [{ ...good, revision: Number(huge) }] },
    `{"intents":[{"family":"notice","idempotencyKey":"x","to":"a@example.org","revision":${huge},"content":{"subject":"s","text":"t"}}]}`,
    { intents: [{ ...good, to: `${'😀'.repeat(80)}@example.org` }] },
    { intents: [{ ...good, tags: [{ name: '😀'.repeat(100), value: '😀' }] }] },
    { intents: [{ ...good, notBefore: `${huge}-01-01T00:00:00Z` }] },
    { intents: [{ ...good, [`${'😀'.repeat(600)}`]: 1 }] },
  ];
  for (const body of bodies) {
    const { status } = await stack.fetch('/v1/intents', { method: 'POST', token: stack.secrets.producerToken, body });
    assert.ok(status >= 400 && status < 500, `HTTP ${status} for ${JSON.stringify(body).slice(0, 60)}`);
  }
  for (const path of ['/v1/intents/😀', `/v1/intents/${huge}`, '/v1/intents/%00%ff', `/${'x'.repeat(4_000)}`]) {
    const { status } = await stack.fetch(path, { token: stack.secrets.producerToken });
    assert.ok(status >= 400 && status < 500, `HTTP ${status} for ${path.slice(0, 60)}`);
  }
  // The provider's turn: its texts repeat the recipient, its header asks for an absurd wait.
  await stack.faults.provider([
    { kind: 'service_unavailable', retryAfter: huge, match: { to: 'absurd-0@' } },
    { kind: 'service_unavailable', retryAfter: '-1', match: { to: 'absurd-1@' } },
    { kind: 'truncated_json', match: { to: 'absurd-2@' } },
    { kind: 'ok_html', match: { to: 'absurd-3@' } },
    { kind: 'refuse', match: { to: 'absurd-4@' } },
  ]);
  const absurd = await record(stack, notices('absurd', 5));
  const emoji = await record(stack, [{ ...good, idempotencyKey: 'emoji', content: { subject: '😀'.repeat(50), text: '😀'.repeat(5_000) } }]);
  await until(async () => (await states(stack, absurd)).retry === 4, { what: 'four wait for their retry' });
  assert.deepEqual((await rowsOf(stack, absurd.slice(4))).map(({ status }) => status), ['failed']);
  const next = await record(stack, notices('after-hostile', 10));
  await settled(stack, [...next, ...emoji]);
  await assertSentOnce(stack, [...next, ...emoji]);
  assert.doesNotMatch(stack.workerLog(), /panicked|Critical|RuntimeError|unreachable/);
});

test('requests, batches and ticks share no client: nothing is used on behalf of another request', async () => {
  // A slow database makes them overlap.
  await stack.database.latency(30);
  try {
    const requests = Array.from({ length: 20 }, (_, index) => stack.intents(notices(`overlap${index}`, 2)));
    const ticks = Array.from({ length: 5 }, () => stack.tick());
    const answers = await Promise.all(requests);
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]));
    await Promise.all(ticks);
    const ids = answers.flatMap(({ body }) => body.intents.map(({ id }) => id));
    await settled(stack, ids);
    await assertSentOnce(stack, ids);
  } finally {
    await stack.database.latency(0);
  }
  assert.doesNotMatch(stack.workerLog(), /on behalf of a different request|hanging Promise|will never generate a response/i);
});

test('a mail that is called off before it leaves never leaves', async () => {
  // Far enough away that the relay, not this test's patience, decides.
  const notBefore = new Date(Date.now() + 3_600_000).toISOString();
  const [later] = notices('calledoff', 1).map((intent) => ({ ...intent, notBefore }));
  const [id] = await record(stack, [later]);
  const cancel = (one) => stack.fetch(`/v1/intents/${one}/cancel`, { method: 'POST', token: stack.secrets.producerToken });
  for (const _ of [1, 2]) {
    const { status, body } = await cancel(id);
    assert.deepEqual([status, body], [200, { id, canceled: true, status: 'canceled' }]);
  }
  const [again] = (await stack.intents([later])).body.intents;
  assert.deepEqual([again.id, again.duplicate, again.status], [id, true, 'canceled']);

  const [gone] = await record(stack, notices('gone', 1));
  await settled(stack, [gone]);
  const late = await cancel(gone);
  assert.deepEqual([late.status, late.body.code, late.body.intentStatus], [409, 'too_late', 'sent']);
  assert.equal((await stack.accepted()).length, 1);
});
