// The pace, and the pauses of operators, in workerd: what one domain must wait for, nobody else waits for; what is paused
// makes no call, shows itself, and goes out once somebody has lifted it.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { SHORT, assertSentOnce, invitation, notices, record, rowsOf, settled, states } from './checks.mjs';
import { startStack, until } from './harness.mjs';

/** A mail to a domain each half second; a claim waits for up to four seconds, and outlasts that and its calls. */
const VARS = { ...SHORT, PACE_PER_DOMAIN_PER_MINUTE: 120, PACE_WAIT_MS: 4_000, LEASE_MS: 9_500, TICK_MS: 5_000 };
const EVERY_MS = 500;
/** A timer of the runtime may be early by as much as its clock leaves out. */
const CLOCK_MS = 1;
const HOUR_MS = 3_600_000;
/** A zone in which it is about noon, so that a campaign may go out whenever this runs; these names count the other way. */
const ahead = ((12 - new Date().getUTCHours() + 36) % 24) - 12;
const NOON = `Etc/GMT${ahead > 0 ? '-' : '+'}${Math.abs(ahead)}`;

let stack;
before(async () => {
  stack = await startStack({ vars: VARS });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

const look = async (path) => (await stack.fetch(path, { token: stack.secrets.operatorToken })).body;
const order = (path, body = {}) => stack.fetch(path, { method: 'POST', token: stack.secrets.operatorToken, body });

async function pause(scope) {
  const until = new Date(Date.now() + HOUR_MS).toISOString();
  const { status, body } = await order('/v1/pauses', { scope, until, reason: 'wrong_content', note: 'a test' });
  assert.equal(status, 200, JSON.stringify(body));
}

/** Intents whose recipients are at one domain each. */
const to = (domain, intents) => intents.map((intent) => ({ ...intent, to: intent.to.replace('example.org', domain) }));
/** When the provider saw the mails to a domain, in order. */
const seenAt = async (domain) =>
  (await stack.requests())
    .filter((request) => request.to.some((address) => address.includes(`@${domain}`)))
    .map(({ at }) => Date.parse(at))
    .sort((one, other) => one - other);
/** What the provider saw of these rows. */
async function callsOf(ids) {
  const keys = new Set((await rowsOf(stack, ids)).map((row) => row.idempotency_key));
  return (await stack.requests()).filter((request) => keys.has(request.idempotencyKey)).length;
}

test('mails to one domain leave half a second apart, and those to others at once', async () => {
  const began = Date.now();
  const ids = await record(stack, [
    ...to('slow.example', notices('slow', 6)),
    ...Array.from({ length: 6 }, (_, n) => to(`fast${n}.example`, notices(`fast${n}`, 1))).flat(),
  ]);
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
  const slow = await seenAt('slow.example');
  assert.equal(slow.length, 6);
  // The n-th slot lies n intervals after the first one at least, and no call is made before its slot.
  slow.forEach((at, n) => assert.ok(at >= began + n * EVERY_MS - CLOCK_MS, `call ${n} came ${at - began} ms after the request`));
  const fast = (await Promise.all(Array.from({ length: 6 }, (_, n) => seenAt(`fast${n}.example`)))).flat();
  assert.equal(fast.length, 6);
  assert.ok(fast.every((at) => at < slow[5]), 'nobody waits for another domain');
});

test('a second request begins where the first one left the bucket', async () => {
  const began = Date.now();
  const first = await record(stack, to('again.example', notices('first', 3)));
  await settled(stack, first, { ticks: true });
  const second = await record(stack, to('again.example', notices('second', 3)));
  await settled(stack, second, { ticks: true });
  await assertSentOnce(stack, [...first, ...second]);
  const seen = await seenAt('again.example');
  assert.equal(seen.length, 6);
  seen.forEach((at, n) => assert.ok(at >= began + n * EVERY_MS - CLOCK_MS, `call ${n} came ${at - began} ms after the request`));
});

test('an operator pauses one family: it makes no call, shows itself, and goes out when it is lifted', async () => {
  await pause('notice');
  const paused = await record(stack, notices('paused', 5).map((intent, n) => ({ ...intent, to: `p${n}@p${n}.example` })));
  const others = await record(stack, [invitation('beside-0'), invitation('beside-1')]);
  await settled(stack, others, { ticks: true });
  await until(async () => (await states(stack, paused)).retry === paused.length, { what: 'all of the family wait' });
  await stack.tick();
  assert.equal(await callsOf(paused), 0);
  assert.deepEqual(new Set((await rowsOf(stack, paused)).map(({ cause }) => cause)), new Set(['paused']));

  const { items } = await look('/v1/pauses');
  assert.deepEqual(items.map(({ scope, state, reason, setBy }) => ({ scope, state, reason, setBy })), [
    { scope: 'notice', state: 'in_force', reason: 'wrong_content', setBy: 'operator' },
  ]);
  assert.deepEqual((await look('/health')).pauses.map(({ scope }) => scope), ['notice']);

  const lifted = await order('/v1/pauses/notice/lift', { note: 'mended' });
  assert.deepEqual([lifted.status, lifted.body.woken, lifted.body.remaining], [200, 5, 0]);
  await settled(stack, paused, { ticks: true });
  await assertSentOnce(stack, paused);
  assert.deepEqual((await look('/v1/pauses')).items, [], 'the probe has ended it');
});

test('what an operator lifts is probed first: where the provider fails still, a single mail has asked', async () => {
  await pause('*');
  const ids = await record(stack, notices('probed', 8).map((intent, n) => ({ ...intent, to: `q${n}@q${n}.example` })));
  await until(async () => (await states(stack, ids)).retry === ids.length, { what: 'all wait' });
  await stack.faults.provider([{ kind: 'daily_quota', count: -1, retryAfter: 3600 }]);
  await order('/v1/pauses/*/lift', {});
  await until(
    async () => {
      await stack.tick();
      return (await look('/v1/pauses')).items[0].setBy === 'system';
    },
    { what: 'the probe has renewed the pause' },
  );
  assert.equal(await callsOf(ids), 1);
  await stack.provider.clearFaults();
  await order('/v1/pauses/*/lift', {});
  await until(
    async () => {
      await stack.tick();
      return (await states(stack, ids)).sent === ids.length - 1;
    },
    { what: 'whoever only waited is sent' },
  );
  // The mail that asked was told an hour by the provider, and keeps to it; here it passes.
  await stack.sql("UPDATE outbox SET next_attempt_at = 1, relay_at = 1 WHERE status = 'retry'");
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
});

test('bulk mails of a paused family are not even handed over, and follow when it is lifted', async () => {
  await pause('campaign');
  const mails = Array.from({ length: 10 }, (_, n) => ({
    family: 'campaign',
    key: { campaignId: 'paused', contactId: `c${n}` },
    to: `c${n}@c${n}.example`,
    timeZone: NOON,
    content: { subject: `Spring ${n}`, text: 'It is here.' },
  }));
  const ids = await record(stack, mails);
  await stack.tick();
  assert.deepEqual(await states(stack, ids), { pending: 10 });
  assert.deepEqual(await stack.requests(), []);
  assert.equal((await order('/v1/pauses/campaign/lift', {})).status, 200);
  await settled(stack, ids, { ticks: true });
  const accepted = await stack.accepted();
  assert.deepEqual(accepted.map((mail) => mail.to[0]).sort(), mails.map((mail) => mail.to).sort(), 'one mail each');
  assert.deepEqual(await states(stack, ids), { sent: 10 });
});
