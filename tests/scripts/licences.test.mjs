// The licence check reads SPDX expressions as they stand in real manifests.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { licenceAllowed } from '../../scripts/lib/licences.mjs';

const ALLOWED = new Set(['MIT', 'Apache-2.0', 'Apache-2.0 WITH LLVM-exception', 'Unicode-3.0']);

for (const [expression, expected] of [
  ['MIT', true],
  ['GPL-3.0', false],
  ['MIT OR GPL-3.0', true],
  ['GPL-3.0 OR MIT', true],
  ['MIT AND GPL-3.0', false],
  ['MIT/Apache-2.0', true],
  ['(MIT OR GPL-3.0) AND Unicode-3.0', true],
  ['(MIT OR Apache-2.0) AND GPL-3.0', false],
  ['GPL-3.0 OR MIT AND GPL-2.0', false],
  ['Apache-2.0 WITH LLVM-exception', true],
  ['Apache-2.0 WITH Other-exception', false],
  ['MIT MIT', false],
  ['(MIT', false],
  ['', false],
]) {
  test(`"${expression}" is ${expected ? 'allowed' : 'refused'}`, () => {
    assert.equal(licenceAllowed(expression, ALLOWED), expected);
  });
}
