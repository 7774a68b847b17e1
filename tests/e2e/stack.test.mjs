// The stack itself: its parts answer, a killed Worker leaves nothing behind and comes back on the same port.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { groupLives } from '../../scripts/lib/part.mjs';
import { startStack, until } from './harness.mjs';

let stack;
before(async () => {
  stack = await startStack();
});
after(async () => {
  await stack?.stop();
});

test('the Worker answers, and is healthy once the schedule has run', async () => {
  assert.deepEqual((await stack.fetch('/health')).body, { status: 'troubled', troubles: ['relay_never_ran'] });
  await stack.tick();
  const { status, body } = await stack.fetch('/health');
  assert.deepEqual([status, body], [200, { status: 'ok', troubles: [] }]);
});

test('the database and the provider answer at their control doors', async () => {
  assert.deepEqual(await stack.sql('SELECT ?1 AS number, ?2 AS text, NULL AS missing', [9007199254740993n, 'x']), [
    { number: 9007199254740993n, text: 'x', missing: null },
  ]);
  assert.ok((await stack.counters()).requests >= 1);
  assert.deepEqual(await stack.accepted(), []);
  assert.deepEqual(await stack.requests(), []);
});

test('a fault of the database is felt and can be cleared', async () => {
  await stack.faults.database([{ kind: 'bad_gateway', count: -1 }]);
  await assert.rejects(stack.sql('SELECT 1'), /HTTP 502/);
  await stack.database.clearFaults();
  assert.deepEqual(await stack.sql('SELECT 1 AS one'), [{ one: 1 }]);
});

test('SIGKILL ends wrangler and workerd together, and the Worker can be started again', async () => {
  const { pid } = stack.parts.worker;
  await stack.killWorker('SIGKILL');
  assert.equal(groupLives(pid), false);
  await assert.rejects(stack.fetch('/health'));
  await stack.startWorker();
  assert.notEqual(stack.parts.worker.pid, pid);
  await until(async () => (await stack.fetch('/health')).status < 500, { what: 'the Worker answers again' });
});
