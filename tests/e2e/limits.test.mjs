// Time limits of what goes out: whoever answers nothing, or stops after the headers, costs one limit and no more.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { SHORT, assertSentOnce, notesOf, notices, record, settled } from './checks.mjs';
import { startStack, until } from './harness.mjs';

let stack;
before(async () => {
  stack = await startStack({ vars: SHORT });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

test('a provider that answers nothing, or stops after its headers, is bounded in time and holds up nobody', async () => {
  await stack.faults.provider([
    { kind: 'stall', match: { to: 'still-0@' } },
    { kind: 'accept_then_stall', match: { to: 'still-1@' } },
    { kind: 'stall_after_headers', match: { to: 'still-2@' } },
    { kind: 'stall_body_accepted', match: { to: 'still-3@' } },
  ]);
  const ids = await record(stack, notices('still', 10));
  const first = async () =>
    stack.sql(
      `SELECT o.seq, a.outcome, a.closed_at - a.planned_at AS took FROM attempts a JOIN outbox o ON o.id = a.outbox_id
       WHERE a.outbox_id IN (SELECT value FROM json_each(?1)) AND a.closed_at IS NOT NULL
         AND a.opened_at = (SELECT min(opened_at) FROM attempts WHERE outbox_id = a.outbox_id)
       ORDER BY o.seq`,
      [JSON.stringify(ids)],
    );
  // Nobody closes an attempt but the worker that opened it.
  await until(async () => (await first()).length === ids.length, { what: 'every first attempt is closed' });
  const attempts = await first();
  assert.deepEqual(attempts.map(({ outcome }) => outcome), [...Array(4).fill('ambiguous'), ...Array(6).fill('accepted')]);
  for (const { took } of attempts.slice(0, 4)) assert.ok(took >= SHORT.PROVIDER_TIMEOUT_MS, `${took} ms`);
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
});

test('a database that answers nothing, or stops after its headers, is bounded in time and loses nothing', async () => {
  const failed = () => notesOf(stack.workerLog()).filter(({ code }) => code === 'claim_failed').length;
  for (const kind of ['stall', 'stall_after_headers']) {
    const before = failed();
    // Every repetition of the claim within one batch meets it too.
    await stack.faults.database([{ kind, match: "cause = 'claimed'", count: -1 }]);
    const ids = await record(stack, notices(kind.replaceAll('_', '-'), 3));
    await until(() => failed() > before, { what: 'the claim is given up' });
    await stack.database.clearFaults();
    await settled(stack, ids);
    await assertSentOnce(stack, ids);
  }
});
