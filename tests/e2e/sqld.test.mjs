// The same Worker over a real sqld instead of the development database.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SHORT, assertSentOnce, notices, record, settled, states } from './checks.mjs';
import { startStack, until } from './harness.mjs';

let stack;
before(async () => {
  stack = await startStack({ vars: SHORT, door: true, sqld: true });
});
after(() => stack?.stop());

test('over a real sqld: mails are sent once, a duplicate sends none, and the relay finishes what the queue refused', async (context) => {
  if (stack.unavailable) return context.skip(stack.unavailable);
  const intents = notices('real', 100);
  const ids = await record(stack, intents);
  await settled(stack, ids);
  const again = await stack.intents(intents);
  assert.ok(again.body.intents.every(({ id, duplicate, status }, index) => id === ids[index] && duplicate && status === 'sent'));

  await stack.knock('queue', { refuse: true });
  const refused = await record(stack, notices('real-refused', 10));
  await stack.tick();
  assert.deepEqual(await states(stack, refused), { pending: 10 });
  await stack.knock('queue', { refuse: false });
  await settled(stack, refused, { ticks: true });
  await assertSentOnce(stack, [...ids, ...refused]);

  // A death after the call: the lease, the seal and the doubt live in the real server's tables.
  await stack.faults.provider([{ kind: 'hold_accepted' }]);
  const killed = await record(stack, notices('real-killed', 1));
  await until(async () => (await stack.provider.faultsNow()).held === 1, { what: 'the answer is held' });
  await stack.killWorker('SIGKILL');
  await stack.provider.release();
  await stack.startWorker();
  await settled(stack, killed, { ticks: true });
  await assertSentOnce(stack, killed);
});
