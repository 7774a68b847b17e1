// The provider says "too many": for a moment, for a day, for a month. Nothing is lost, no try is used up, and no burst
// follows.
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { SHORT, assertSentOnce, notices, record, rowsOf, settled, states } from './checks.mjs';
import { startStack, until } from './harness.mjs';

let stack;
before(async () => {
  stack = await startStack({ vars: { ...SHORT, CALLS_AT_ONCE: 5, SUBREQUEST_BUDGET: 13, TICK_MS: 5_000 } });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

/** Tries that were counted against the rows. */
const tries = async (ids) => new Set((await rowsOf(stack, ids)).map((row) => row.attempt_count));

test('a storm of rate limits passes: everything is sent once, and no try is used up by it', async () => {
  await stack.faults.provider([{ kind: 'rate_limit', count: 12, retryAfter: 1 }]);
  const ids = await record(stack, notices('rate', 20));
  await settled(stack, ids, { ticks: true, timeoutMs: 60_000 });
  await assertSentOnce(stack, ids);
  assert.deepEqual(await tries(ids), new Set([1]));
});

for (const [kind, reason] of [['daily_quota', 'provider_day_quota'], ['monthly_quota', 'provider_month_quota']]) {
  test(`${kind}: sending pauses for everything, one mail asks again when the time has come, then all is sent`, async () => {
    await stack.faults.provider([{ kind, count: -1 }]);
    const ids = await record(stack, notices(kind.replace('_', '-'), 12));
    const pause = async () => (await stack.sql("SELECT reason, until, strikes FROM pauses WHERE scope = '*'"))[0];
    await until(async () => (await pause())?.reason === reason, { what: 'sending is paused' });
    await until(async () => (await states(stack, ids)).retry === ids.length, { what: 'all rows wait' });
    const asked = (await stack.requests()).length;
    assert.ok(asked <= 5, `no call begins after the first answer, but ${asked} were made`);
    await stack.tick();
    assert.equal((await stack.requests()).length, asked, 'nothing is sent in the pause');
    assert.ok((await stack.fetch('/health')).body.troubles.includes('sending_paused'));

    // The time that it named passes, and the quota is still used up: a single mail asks.
    await passPause();
    await until(
      async () => {
        await stack.tick();
        return (await pause()).strikes === 2;
      },
      { what: 'the pause is renewed' },
    );
    assert.equal((await stack.requests()).length, asked + 1, 'one mail asked for all');

    await stack.provider.clearFaults();
    await passPause();
    await settled(stack, ids, { ticks: true, timeoutMs: 60_000 });
    await assertSentOnce(stack, ids);
    assert.deepEqual(await tries(ids), new Set([1]));
    assert.equal(await pause(), undefined);
  });
}

/** Lets the pause's time pass: moves it, and what waits for it, into the past. */
async function passPause() {
  await stack.sql("UPDATE pauses SET until = 1 WHERE scope = '*'");
  await stack.sql("UPDATE outbox SET next_attempt_at = 1, relay_at = 1 WHERE status = 'retry'");
}
