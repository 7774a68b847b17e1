// The Worker dies between each two of its steps, as in a power cut, and is started again. The local queues live in
// memory and die with it, so what is left is the relay's to finish: every mail goes out once, with the same bytes.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { SHORT, assertSentOnce, notices, record, rowsOf, settled } from './checks.mjs';
import { startStack, until } from './harness.mjs';

/** What tells the steps' requests apart: a piece of SQL that no other request carries. */
const STEP = {
  intake: 'INSERT INTO letters',
  mark: "cause = 'published'",
  claim: "cause = 'claimed'",
  open: 'INSERT INTO attempts',
  settle: 'UPDATE attempts SET',
};

/** A patient Worker: what is held must not time out before the Worker is killed. */
const VARS = { ...SHORT, PROVIDER_TIMEOUT_MS: 1_500, DATABASE_TIMEOUT_MS: 1_500 };

let stack;
before(async () => {
  stack = await startStack({ vars: VARS });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

/** Kills the Worker while `count` requests are held; what was held before it ran never runs. */
async function killHeld(server, count = 1) {
  await until(async () => (await server.faultsNow()).held >= count, { what: `${count} requests are held` });
  await stack.killWorker('SIGKILL');
  await server.clearFaults();
  await server.release({ discard: true });
}

async function recover(ids) {
  await stack.startWorker();
  await settled(stack, ids, { ticks: true, timeoutMs: 60_000 });
  await assertSentOnce(stack, ids);
}

/** The states in which the death left the rows. */
const left = async (ids) => [...new Set((await rowsOf(stack, ids)).map(({ status }) => status))];

test('killed after the intake was written and before its publication was marked', async () => {
  await stack.faults.database([{ kind: 'hold_before', match: STEP.mark }, { kind: 'hold_before', match: STEP.claim, count: -1 }]);
  const ids = await record(stack, notices('kill-mark', 3));
  await killHeld(stack.database);
  assert.deepEqual(await left(ids), ['pending']);
  await recover(ids);
});

test('killed after the intake was written and before its answer: the repeated request gets the same rows', async () => {
  await stack.faults.database([{ kind: 'hold_after', match: STEP.intake }]);
  const intents = notices('kill-intake', 3);
  const lost = stack.intents(intents).then(() => 'answered', () => 'lost');
  await killHeld(stack.database);
  assert.equal(await lost, 'lost');
  await stack.startWorker();
  const { status, body } = await stack.intents(intents);
  assert.equal(status, 202);
  assert.ok(body.intents.every((intent) => intent.duplicate));
  const ids = body.intents.map(({ id }) => id);
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
});

test('killed before the claim ran', async () => {
  await stack.faults.database([{ kind: 'hold_before', match: STEP.claim }]);
  const ids = await record(stack, notices('kill-claim', 3));
  await killHeld(stack.database);
  assert.deepEqual(await left(ids), ['enqueued']);
  await recover(ids);
});

test('killed between claim and seal', async () => {
  await stack.faults.database([{ kind: 'hold_before', match: STEP.open }]);
  const ids = await record(stack, notices('kill-open', 3));
  await killHeld(stack.database);
  assert.deepEqual(await left(ids), ['processing']);
  assert.deepEqual(await stack.requests(), []);
  await recover(ids);
});

test('killed between seal and call', async () => {
  await stack.faults.database([{ kind: 'hold_after', match: STEP.open }]);
  const ids = await record(stack, notices('kill-sealed', 3));
  await killHeld(stack.database);
  assert.equal((await stack.sql('SELECT count(*) AS seals FROM seals'))[0].seals, 3);
  assert.deepEqual(await stack.requests(), []);
  await recover(ids);
});

test('killed during the call: before the provider took the mail, and after it', async () => {
  await stack.faults.provider([{ kind: 'hold', match: { to: 'kill-call-0@' } }, { kind: 'hold_accepted', match: { to: 'kill-call-1@' } }]);
  const ids = await record(stack, notices('kill-call', 3));
  await killHeld(stack.provider, 2);
  assert.deepEqual((await rowsOf(stack, ids)).map(({ doubts }) => doubts), [1, 1, 1]);
  await recover(ids);
});

test('killed between call and settle', async () => {
  await stack.faults.database([{ kind: 'hold_before', match: STEP.settle }]);
  const ids = await record(stack, notices('kill-settle', 3));
  await killHeld(stack.database);
  assert.equal((await stack.accepted()).length, 3);
  assert.deepEqual(await left(ids), ['processing']);
  await recover(ids);
  assert.ok((await stack.requests()).some(({ outcome }) => outcome === 'replayed'), 'the provider was asked again with the same key');
});

test('killed between settle and acknowledgement', async () => {
  await stack.faults.database([{ kind: 'hold_after', match: STEP.settle }]);
  const ids = await record(stack, notices('kill-ack', 3));
  await killHeld(stack.database);
  await recover(ids);
  assert.equal((await stack.requests()).length, 3);
});
