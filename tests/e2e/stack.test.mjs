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

test('the Worker answers', async () => {
  const { status } = await stack.fetch('/health');
  assert.ok(status < 500, `HTTP ${status}`);
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
