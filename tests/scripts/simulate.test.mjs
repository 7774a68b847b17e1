// What `npm run simulate` tells the binary, and which binary that is.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countPlanted } from '../../scripts/lib/simulation-stage.mjs';
import { simulationWords, testProgram } from '../../scripts/lib/simulation.mjs';

test('the word "seeds" may be left out', () => {
  assert.deepEqual(simulationWords([]), ['seeds']);
  assert.deepEqual(simulationWords(['--seeds', '10000', '--resume']), ['seeds', '--seeds', '10000', '--resume']);
  assert.deepEqual(simulationWords(['--seed=7', '--trace']), ['seeds', '--seed=7', '--trace']);
  assert.deepEqual(simulationWords(['finds']), ['finds']);
  assert.deepEqual(simulationWords(['--help']), ['--help']);
});

test("the program is the test target's own", () => {
  const message = (name, executable) => JSON.stringify({ reason: 'compiler-artifact', target: { name }, executable });
  const messages = ['{"reason":"build-script-executed"}', message('sealpost', '/b/sealpost'), message('simulation', '/b/simulation-1'), message('x', null), ''];
  assert.equal(testProgram(messages.join('\n')), '/b/simulation-1');
  assert.equal(testProgram(message('sealpost', '/b/sealpost')), undefined);
});

test('a planted bug that nobody catches is a failed check', () => {
  assert.deepEqual(countPlanted('I2  marks first  after 3 seeds\n48 planted bugs, 47 caught\n'), { passed: 47, failed: 1 });
  assert.deepEqual(countPlanted(''), { passed: 0, failed: 0 });
});
