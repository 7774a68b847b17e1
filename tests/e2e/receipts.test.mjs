// Hearing back in workerd: the provider model sends its signed events to the Worker, the official library signs some of
// its own, and whatever else comes to that door changes nothing.
import assert from 'node:assert/strict';
import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { Webhook } from 'svix';
import { UNPACED, assertSentOnce, notesOf, notices, record, rowsOf, settled } from './checks.mjs';
import { startStack, until } from './harness.mjs';

const newSecret = () => `whsec_${randomBytes(32).toString('base64')}`;

/** A rotation is under way for as long as these tests run: the Worker has both, the provider signs with the old one. */
const [OLD, NEW] = [newSecret(), newSecret()];

let stack;
before(async () => {
  stack = await startStack({ vars: { ...UNPACED, WEBHOOK_SECRETS: `${NEW},${OLD}` } });
});
after(() => stack?.stop());
beforeEach(async () => {
  await stack.calm();
  await stack.webhooks({ secret: OLD });
});

/** A notice to this address. */
const noticeTo = (to, idempotencyKey = randomUUID()) => ({ family: 'notice', idempotencyKey, to, content: { subject: 's', text: 't' } });

/** The headers of a signed event, made by the official library, or over bytes that are no text by hand. */
function signed(body, { id = `msg_${randomUUID()}`, at = new Date(), secret = OLD, names = 'svix' } = {}) {
  const seconds = Math.floor(at.getTime() / 1_000);
  const signature =
    typeof body === 'string'
      ? new Webhook(secret).sign(id, at, body)
      : `v1,${createHmac('sha256', Buffer.from(secret.slice('whsec_'.length), 'base64')).update(`${id}.${seconds}.`).update(body).digest('base64')}`;
  return { [`${names}-id`]: id, [`${names}-timestamp`]: String(seconds), [`${names}-signature`]: signature };
}

/** The body of an event as the provider writes it. */
const event = (type, data, created_at = new Date().toISOString()) => JSON.stringify({ type, created_at, data });

/** One mail that the provider took, and the ids of both sides. */
async function sentMail(to = `${randomUUID()}@example.org`) {
  const [id] = await record(stack, [noticeTo(to)]);
  await settled(stack, [id]);
  const { status, providerMessageId } = await stack.intent(id);
  assert.equal(status, 'sent');
  return { id, messageId: providerMessageId };
}

/** How many rows the door could have written. */
async function traces() {
  const [counts] = await stack.sql('SELECT (SELECT count(*) FROM receipts) AS receipts, (SELECT count(*) FROM parking) AS parked');
  return counts;
}

const heardOf = async (id) => (await stack.sql('SELECT news FROM receipts WHERE outbox_id = ?1 ORDER BY received_at', [id])).map(({ news }) => news);

const untilDelivery = (id, delivery) =>
  until(
    async () => {
      const found = (await stack.intent(id)).delivery;
      if (found === delivery) return true;
      throw new Error(String(found));
    },
    { what: `the delivery says ${delivery}` },
  );

test('what became of each mail is heard, and nobody who bounced or complained is written to again', async () => {
  await stack.webhooks({ secret: OLD, auto: true });
  const wanted = { delivered: 'delivered', bounced: 'bounced', complained: 'complained', suppressed: 'suppressed' };
  const names = Object.keys(wanted);
  const ids = await record(stack, names.map((name) => noticeTo(`${name}+e2e@resend.dev`)));
  for (const [index, name] of names.entries()) await untilDelivery(ids[index], wanted[name]);
  assert.equal((await stack.intent(ids[1])).deliveryDetail, 'permanent');
  await until(async () => (await stack.provider.state()).news.waiting === 0, { what: 'every event was answered' });
  const { news } = await stack.provider.state();
  assert.deepEqual([news.sent, news.givenUp], [9, 0]);

  const calls = (await stack.requests()).length;
  // However the address is written.
  const next = await record(stack, [noticeTo('Bo <bounced+e2e@Resend.dev>'), noticeTo('complained+e2e@resend.dev')]);
  await settled(stack, next);
  assert.deepEqual((await rowsOf(stack, next)).map(({ status, attempt_count }) => [status, attempt_count]), [['suppressed', 0], ['suppressed', 0]]);
  assert.equal((await stack.requests()).length, calls);
  const [other] = await record(stack, [noticeTo('delivered+e2e@resend.dev')]);
  await settled(stack, [other]);
  await assertSentOnce(stack, [ids[0], other]);
});

test('the official library and the model sign alike, under either name of the headers, with either secret, in one round trip', async () => {
  const { id, messageId } = await sentMail();
  const sent = await stack.deliver(messageId, 'email.sent');
  assert.equal(sent.status, 200);
  new Webhook(OLD).verify(sent.body, { 'svix-id': sent.svixId, 'svix-timestamp': String(sent.timestampS), 'svix-signature': sent.signature });
  assert.throws(() => new Webhook(NEW).verify(sent.body, { 'svix-id': sent.svixId, 'svix-timestamp': String(sent.timestampS), 'svix-signature': sent.signature }));

  // White space, a member twice and letters written as escapes: the signature is over the bytes, not over their meaning.
  const odd = `{ "type":"email.delivery_delayed",\n "created_at": "${new Date().toISOString()}", "x": 1, "x": 1.0,\t"data": {"email\\u005fid":"${messageId}"}}\n`;
  const bodies = [
    [odd, { secret: OLD }],
    [event('email.delivered', { email_id: messageId }), { secret: NEW, names: 'webhook' }],
    [event('email.opened', { email_id: messageId }), { secret: OLD, names: 'webhook' }],
  ];
  for (const [body, how] of bodies) {
    await stack.database.resetCounters();
    const { status, body: answer } = await stack.receipt(body, signed(body, how));
    assert.deepEqual([status, answer], [200, { result: 'heard' }], body);
    assert.equal(await stack.workerRequests(), 1);
  }
  assert.deepEqual((await heardOf(id)).sort(), ['delayed', 'delivered', 'opened', 'sent']);
  assert.equal((await stack.intent(id)).delivery, 'delivered');
});

test('what is not signed by the provider is refused, writes nothing, and breaks nothing', async () => {
  const { id, messageId } = await sentMail();
  const body = event('email.complained', { email_id: messageId, to: ['a@example.org'] });
  const good = signed(body);
  const without = (name) => Object.fromEntries(Object.entries(good).filter(([other]) => other !== name));
  const old = new Date(Date.now() - 400_000);
  const pieces = [
    [body, {}],
    ...Object.keys(good).map((name) => [body, without(name)]),
    ...['abc', '-1', '99999999999999999999', String(Date.now()), '', '1e9', '+1', '\u00f0\u009f\u0098\u0080'].map((time) => [body, { ...good, 'svix-timestamp': time }]),
    [body, signed(body, { at: old })],
    [body, signed(body, { at: new Date(Date.now() + 400_000) })],
    [body, signed(body, { secret: newSecret() })],
    [`${body} `, good],
    [body, { ...good, 'svix-id': 'msg_other' }],
    [body, { ...good, 'svix-id': 'a.b' }],
    [body, { ...good, 'svix-id': '\u00f0\u009f\u0098\u0080'.repeat(300) }],
    ...['', 'v1', 'v1,', 'v2,abc', `v1,${'\u00ff'.repeat(44)}`, 'v1,x '.repeat(1_000), 'x'.repeat(10_000)].map((text) => [body, { ...good, 'svix-signature': text }]),
    ['x'.repeat(5_000_000), good],
    ['\u{1F600}'.repeat(200_000), signed('\u{1F600}'.repeat(200_000))],
    [randomBytes(1_000), good],
  ];
  const before = await traces();
  const ids = [];
  for (const [piece, headers] of pieces) {
    const { status, body: answer } = await stack.receipt(piece, headers);
    assert.ok(status >= 400 && status < 500, `HTTP ${status} for ${JSON.stringify(headers).slice(0, 120)}`);
    assert.match(answer.code, /^(signature_(missing|malformed|expired|invalid)|body_too_large)$/);
    ids.push(...(await record(stack, notices(`refused-${ids.length}`, 1))));
  }
  assert.deepEqual(await traces(), before);
  assert.equal((await stack.intent(id)).delivery, null);
  await settled(stack, ids);
  await assertSentOnce(stack, ids);
  assert.doesNotMatch(stack.workerLog(), /panicked|Critical|RuntimeError|unreachable/);
});

test('what is signed and not understood is kept for a person, and breaks nothing', async () => {
  const { id, messageId } = await sentMail();
  const data = { email_id: messageId };
  const pieces = [
    '',
    '\u0000',
    'null',
    '{"type":',
    '{"type":7}',
    `${'['.repeat(5_000)}${']'.repeat(5_000)}`,
    `{"type":"email.sent","created_at":${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}}`,
    Buffer.concat([Buffer.from('{"type":"email.delivered","x":"'), Buffer.from([0xff, 0xfe, 0xc0, 0x80]), Buffer.from('"}')]),
    '\u{1F600}'.repeat(20_000),
    event('email.teleported\u{1F600}', { ...data, tags: { sealpost_env: 'local' } }),
    event('email.delivered', data, '99999-01-01T00:00:00Z'),
    event('email.delivered', data, '-99999999999999999999'),
    event('email.delivered', { email_id: '\u{1F600}'.repeat(100) }),
    event('email.delivered', { email_id: null, tags: [[[]]], headers: { 'message-id': 7 } }),
  ];
  const before = await traces();
  const ids = [];
  for (const piece of pieces) {
    const answer = await stack.receipt(piece, signed(piece));
    assert.deepEqual([answer.status, answer.body], [200, { result: 'parked' }], piece.toString().slice(0, 80));
    ids.push(...(await record(stack, notices(`parked-${ids.length}`, 1))));
  }
  assert.deepEqual(await traces(), { receipts: before.receipts, parked: before.parked + pieces.length });
  assert.equal((await stack.intent(id)).delivery, null);
  await settled(stack, ids);
  await assertSentOnce(stack, ids);
  assert.doesNotMatch(stack.workerLog(), /panicked|Critical|RuntimeError|unreachable/);
});

test('an event that comes before the answer of its call proves the mail, and the late answer changes nothing', async () => {
  await stack.faults.provider([{ kind: 'hold_accepted' }]);
  const [id] = await record(stack, notices('early', 1));
  await until(async () => (await stack.provider.faultsNow()).held === 1, { what: 'the answer is held' });
  const [{ id: messageId }] = await stack.accepted();
  assert.equal((await stack.deliver(messageId, 'email.delivered')).status, 200);
  const story = await stack.intent(id);
  assert.deepEqual([story.status, story.cause, story.delivery, story.providerMessageId], ['sent', 'proved_by_receipt', 'delivered', messageId]);
  await stack.provider.release();
  assert.deepEqual(story.attempts.map(({ outcome }) => outcome), [null]);
  const closed = async () => (await stack.intent(id)).attempts[0].outcome === 'accepted';
  await until(closed, { what: 'the late answer is written down' });
  const later = await stack.intent(id);
  for (const name of ['status', 'cause', 'delivery', 'providerMessageId', 'settledAt']) assert.equal(later[name], story[name], name);
  assert.equal((await stack.requests()).length, 1);
  assert.deepEqual(notesOf(stack.workerLog()).filter(({ code }) => code === 'duplicate_seen' || code === 'message_id_conflict'), []);
});

test('an event of a mail that nobody knows is kept, one of another environment is skipped: neither is sent again', async () => {
  const { id, messageId } = await sentMail();
  const unknown = event('email.bounced', { email_id: randomUUID(), to: ['x@example.org'], bounce: { type: 'Permanent' } });
  const kept = await stack.receipt(unknown, signed(unknown));
  assert.deepEqual([kept.status, kept.body], [200, { result: 'waits' }]);
  const before = await traces();
  await stack.database.resetCounters();
  for (const body of [
    event('email.bounced', { email_id: messageId, bounce: { type: 'Permanent' }, tags: { sealpost_env: 'staging', sealpost_id: id } }),
    event('contact.created', { id: 'x', email: 'x@example.org' }),
  ]) {
    const { status, body: answer } = await stack.receipt(body, signed(body));
    assert.deepEqual([status, answer], [200, { result: 'skipped' }]);
  }
  assert.equal(await stack.workerRequests(), 0);
  assert.deepEqual(await traces(), before);
  assert.equal((await stack.intent(id)).delivery, null);
});

test('an event that the database cannot take is answered 5xx, leaves no trace, and is taken when it comes again', async () => {
  await stack.webhooks({ secret: OLD, auto: true });
  await stack.faults.database([{ kind: 'refuse', match: 'INTO receipts', count: -1 }]);
  const [id] = await record(stack, notices('away', 1));
  await until(async () => (await stack.provider.state()).news.refused >= 2, { what: 'both events were refused' });
  assert.equal((await stack.deliver((await stack.accepted())[0].id, 'email.opened')).status, 503);
  assert.deepEqual(await heardOf(id), []);
  await stack.database.clearFaults();
  await untilDelivery(id, 'delivered');
  await until(async () => (await stack.provider.state()).news.waiting === 0, { what: 'nothing waits any more' });
  assert.deepEqual((await heardOf(id)).sort(), ['delivered', 'sent']);
  assert.equal((await stack.provider.state()).news.givenUp, 0);
});

test('the same event several times at once is one effect, and every copy is answered well', async () => {
  const { id, messageId } = await sentMail();
  const body = event('email.bounced', { email_id: messageId, bounce: { type: 'Permanent' } });
  const headers = signed(body);
  // A slow database makes them overlap.
  await stack.database.latency(30);
  const answers = await Promise.all(Array.from({ length: 5 }, () => stack.receipt(body, headers)));
  await stack.database.latency(0);
  assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200, 200, 200]);
  for (const { body: answer } of answers) assert.match(answer.result, /^(heard|known)$/);
  assert.deepEqual(await heardOf(id), ['bounced']);
  assert.equal((await stack.sql('SELECT count(*) AS count FROM suppressions WHERE outbox_id = ?1', [id]))[0].count, 1);
});

test('without a secret the door is closed and health says so; mails go out all the same', async () => {
  await stack.killWorker('SIGTERM');
  await stack.startWorker({ ...UNPACED, WEBHOOK_SECRETS: undefined });
  const { id, messageId } = await sentMail();
  assert.equal((await stack.deliver(messageId, 'email.delivered')).status, 403);
  const body = event('email.delivered', { email_id: messageId });
  assert.equal((await stack.receipt(body, signed(body))).body.code, 'receipt_door_closed');
  assert.deepEqual(await heardOf(id), []);
  assert.ok((await stack.fetch('/health')).body.troubles.includes('receipt_door_closed'));
  await assertSentOnce(stack, [id]);
});
