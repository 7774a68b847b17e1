// What people do with what they hear, in workerd: a recipient who has had enough, and operators with an outcome that
// nobody knows, input that nobody understood, and a dead letter.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { Webhook } from 'svix';
import { SHORT, assertSentOnce, notices, record, rowsOf, settled, states } from './checks.mjs';
import { request } from './control.mjs';
import { startStack, until } from './harness.mjs';

/** A provider that forgets every key at once: no answer means that nobody can know. Only people look mails up. */
const VARS = { ...SHORT, PROVIDER_WINDOW_MS: 0, PROVIDER_WINDOW_MARGIN_MS: 0, RESEND_READ_KEY: undefined };

let stack;
before(async () => {
  stack = await startStack({ vars: VARS, door: true });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

/** What an operator's door answers to a look, or to an order. */
const look = (path) => stack.fetch(path, { token: stack.secrets.operatorToken });
const order = (path, body = {}) => stack.fetch(path, { method: 'POST', token: stack.secrets.operatorToken, body });

/** An announcement to this address. */
const announcement = (to, more = {}) => ({
  family: 'announcement',
  key: { reference: randomUUID() },
  to,
  content: { subject: 'News', text: 'Good news.' },
  ...more,
});

/** A signed event, posted as the provider does. */
async function post(event, id = `msg_${randomUUID()}`) {
  const body = JSON.stringify(event);
  const at = new Date();
  const signature = new Webhook(stack.secrets.webhookSecret).sign(id, at, body);
  return stack.receipt(body, { 'svix-id': id, 'svix-timestamp': String(Math.floor(at.getTime() / 1_000)), 'svix-signature': signature });
}

test('a mail that people may turn off says how, a look at the link changes nothing, and one click ends this kind of mail alone', async () => {
  const ada = `ada-${randomUUID()}@example.org`;
  const [first] = await record(stack, [announcement(ada)]);
  await settled(stack, [first], { ticks: true });
  const [{ headers }] = await stack.accepted();
  assert.equal(headers['Message-ID'], `<${first}.local@sealpost.example>`);
  assert.equal(headers['List-Unsubscribe-Post'], 'List-Unsubscribe=One-Click');
  const [, link] = headers['List-Unsubscribe'].match(/^<([^<>]+)>$/);
  assert.ok(link.startsWith(`${stack.settings.workerUrl}/v1/unsubscribe/`), link);

  const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
  const [waiting] = await record(stack, [announcement(ada, { notBefore: tomorrow })]);
  const before = await rowsOf(stack, [first, waiting]);
  const page = await request(link);
  assert.deepEqual([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8']);
  assert.match(page.body, /<button/);
  assert.deepEqual(await rowsOf(stack, [first, waiting]), before, 'mail programs open links by themselves');
  assert.deepEqual(await stack.sql('SELECT 1 FROM suppressions'), []);

  const oneClick = { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: 'List-Unsubscribe=One-Click' };
  assert.equal((await request(link, oneClick)).status, 200);
  const ended = await stack.intent(waiting);
  assert.deepEqual([ended.status, ended.cause, ended.attemptCount], ['suppressed', 'unsubscribed', 0]);
  const [next, other, bo] = await record(stack, [
    announcement(ada),
    { ...notices(randomUUID(), 1)[0], to: ada },
    announcement(`bo-${randomUUID()}@example.org`),
  ]);
  await settled(stack, [next, other, bo], { ticks: true });
  const { status, cause } = await stack.intent(next);
  assert.deepEqual([status, cause], ['suppressed', 'recipient_suppressed']);
  await assertSentOnce(stack, [first, other, bo]);
  assert.equal((await stack.accepted()).length, 3);
});

test('outcomes that nobody knows: one is found at the provider, one goes out once more, and a second click is the first', async () => {
  await stack.faults.provider([{ kind: 'accept_then_drop', count: -1 }]);
  const [found, again] = await record(stack, notices(`unknown-${randomUUID()}`, 2));
  await until(async () => (await states(stack, [found, again])).unknown === 2, { what: 'both outcomes are unknown' });
  await stack.provider.clearFaults();
  const lost = await stack.accepted();
  assert.equal(lost.length, 2, 'they went out, and nobody was told');
  const list = await look('/v1/unknown');
  assert.deepEqual(list.body.items.map(({ id, doubts }) => [id, doubts]), [found, again].map((id) => [id, 1]));
  assert.doesNotMatch(JSON.stringify(list.body), /@/);
  assert.equal((await look('/health')).body.unknown, 2);

  const looked = await order(`/v1/unknown/${found}/look-up`);
  assert.deepEqual([looked.status, looked.body.result], [200, 'sent'], JSON.stringify(looked.body));
  assert.ok(lost.some(({ id }) => id === looked.body.messageId));
  assert.deepEqual((await rowsOf(stack, [found])).map(({ status, cause }) => [status, cause]), [['sent', 'look_up_found']]);
  await assertSentOnce(stack, [found]);

  const verdict = { verdict: 'send_again', note: 'the mail must go out' };
  const judged = await order(`/v1/unknown/${again}/resolve`, verdict);
  assert.deepEqual([judged.status, judged.body.duplicate, judged.body.mayDuplicate], [202, false, true], JSON.stringify(judged.body));
  const resend = judged.body.id;
  await settled(stack, [resend], { ticks: true });
  await assertSentOnce(stack, [resend]);
  const second = await order(`/v1/unknown/${again}/resolve`, verdict);
  assert.deepEqual([second.status, second.body.id, second.body.duplicate], [200, resend, true]);
  await stack.tick();
  const accepted = await stack.accepted();
  assert.equal(accepted.length, 3, 'the second click sent nothing');
  const [{ idempotency_key: oldKey }, { idempotency_key: newKey }] = await rowsOf(stack, [again, resend]);
  assert.notEqual(oldKey, newKey);
  const keys = (key) => accepted.filter(({ idempotencyKey }) => idempotencyKey === key).length;
  assert.deepEqual([keys(oldKey), keys(newKey)], [1, 1]);
  assert.equal((await stack.intent(again)).status, 'unknown', 'it stays on record');
  assert.deepEqual((await look('/v1/unknown')).body, { items: [], next: null });
});

test('an event that nobody understood is shown, replayed by a version that knows it, or discarded', async () => {
  const [id] = await record(stack, notices(`parked-${randomUUID()}`, 1));
  await settled(stack, [id]);
  const { providerMessageId } = await stack.intent(id);
  // Longer than what is kept of a message of the queue.
  const tags = { sealpost_env: 'local' };
  const data = { email_id: providerMessageId, tags, padding: 'x'.repeat(40_000) };
  const event = { type: 'email.teleported', created_at: new Date().toISOString(), data };
  assert.deepEqual((await post(event)).body, { result: 'parked' });
  const { items } = (await look('/v1/parking')).body;
  assert.deepEqual(items.map(({ source, state }) => [source, state]), [['receipts', 'parked']]);
  const path = `/v1/parking/${items[0].hash}`;
  assert.equal((await look(path)).body.body, JSON.stringify(event));
  assert.equal((await order(`${path}/replay`)).body.code, 'still_not_understood');
  await stack.sql(`UPDATE parking SET body = replace(body, '"email.teleported"', '"email.delivered" ')`);
  const replayed = await order(`${path}/replay`, { note: 'deployed what knows it' });
  assert.deepEqual([replayed.status, replayed.body.state, replayed.body.event], [200, 'replayed', 'heard'], JSON.stringify(replayed.body));
  assert.equal((await stack.intent(id)).delivery, 'delivered');

  for (const number of [1, 2, 3]) await post({ ...event, data: { email_id: `another-${number}`, tags } });
  const [one, ...rest] = (await look('/v1/parking')).body.items;
  const note = 'a kind of event that we do not need';
  assert.equal((await order(`/v1/parking/${one.hash}/discard`, { note: 'ada@example.org asked' })).body.code, 'note_names_somebody');
  assert.equal((await order(`/v1/parking/${one.hash}/discard`, { note })).body.state, 'discarded');
  assert.deepEqual((await order('/v1/parking/discard', { source: 'receipts', note })).body, { discarded: rest.length, more: false });
  assert.deepEqual((await look('/v1/parking')).body.items, []);
  assert.deepEqual(await stack.sql('SELECT DISTINCT body FROM parking'), [{ body: '' }]);
});

test('a dead letter is brought back by an operator, once this version can read it', async () => {
  await stack.knock('queue', { refuse: true });
  const [id] = await record(stack, notices(`dead-${randomUUID()}`, 1));
  await stack.knock('queue', { refuse: false });
  const belongsTo = (family) => stack.sql('UPDATE outbox SET family = ?2 WHERE id = ?1', [id, family]);
  await belongsTo('of_tomorrow');
  const dead = async () => {
    await stack.tick();
    return (await states(stack, [id])).dead_letter === 1;
  };
  await until(dead, { what: 'no version can read it' });
  const all = { class: 'pipeline', limit: 1 };
  const before = await order('/v1/queues/sealpost-outbox/retry-dead', all);
  assert.deepEqual(before.body.items.map(({ result, why }) => [result, why]), [['still_unreadable', 'outbox_id_unclaimed']]);
  assert.deepEqual((await look('/v1/queues/sealpost-outbox/dead-letters')).body.items.map((letter) => letter.id), [id]);
  await belongsTo('notice');
  const retried = await order('/v1/queues/sealpost-outbox/retry-dead', all);
  assert.deepEqual([retried.status, retried.body.items[0].id, retried.body.items[0].result, retried.body.next], [200, id, 'retried', null]);
  await settled(stack, [id], { ticks: true });
  await assertSentOnce(stack, [id]);
});

test('with a signing secret that cannot be read the door is closed and health says so; mails go out all the same', async () => {
  await stack.killWorker('SIGTERM');
  await stack.startWorker({ ...VARS, WEBHOOK_SECRETS: 'whsec_!' });
  const [id] = await record(stack, notices(`malformed-${randomUUID()}`, 1));
  await settled(stack, [id], { ticks: true });
  await assertSentOnce(stack, [id]);
  const { providerMessageId } = await stack.intent(id);
  const refused = await post({ type: 'email.delivered', created_at: new Date().toISOString(), data: { email_id: providerMessageId } });
  assert.deepEqual([refused.status, refused.body.code], [403, 'receipt_secret_invalid']);
  assert.equal((await stack.intent(id)).delivery, null);
  const health = await stack.fetch('/health');
  assert.equal(health.status, 503);
  assert.ok(health.body.troubles.includes('receipt_secret_invalid'), JSON.stringify(health.body));
});
