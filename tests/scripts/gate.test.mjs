// The gate adds up what the runners report, and cannot end green where something failed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countCargo, countNode, runGate } from '../../scripts/lib/gate.mjs';
import { Failure } from '../../scripts/lib/say.mjs';

test('the closing lines of cargo and of Node are added up', () => {
  const cargo = 'test result: ok. 12 passed; 0 failed; 1 ignored\nx\ntest result: FAILED. 3 passed; 2 failed; 0 ignored\n';
  assert.deepEqual(countCargo(cargo), { passed: 15, failed: 2 });
  assert.deepEqual(countNode('# tests 9\n# pass 7\n# fail 1\n# cancelled 1\n'), { passed: 7, failed: 2 });
});

test('a failed stage fails the gate, and what needs it is not run', async (context) => {
  const lines = [];
  context.mock.method(process.stdout, 'write', (text) => lines.push(text));
  let ran = false;
  const code = await runGate([
    { name: 'one', run: () => ({ passed: 4, failed: 0 }) },
    { name: 'two', run: () => Promise.reject(new Failure('no')) },
    { name: 'three', needs: ['two'], run: () => (ran = true) },
    { name: 'four', run: () => ({ skipped: 'nothing there' }) },
  ]);
  context.mock.restoreAll();
  assert.equal(code, 1);
  assert.equal(ran, false);
  assert.equal(lines.at(-1), '4 passed, 2 failed\n');
  assert.ok(lines.some((line) => line === 'NOT CHECKED: four: nothing there\n'));
});
