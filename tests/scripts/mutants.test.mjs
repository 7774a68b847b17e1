// The lists of mutations are well-formed and still fit the sources; the runner's own rules.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { fileOfTitle, mutated, readMutations, testName, titlePattern } from '../../scripts/lib/mutations.mjs';
import { root } from '../../scripts/lib/paths.mjs';

const folder = mkdtempSync(join(tmpdir(), 'sealpost-mutants-'));
after(() => rmSync(folder, { recursive: true, force: true }));

const good = { name: 'a', subject: 's', file: 'src/a.rs', find: 'x > 1', replace: 'true', test: 'paths::t', runner: 'paths' };

function write(path, text) {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function list(...entries) {
  write('tests/mutations/list.json', JSON.stringify(entries));
  return readMutations(folder);
}

test('every list of the house fits the sources', () => {
  assert.ok(readMutations(root).length >= 3);
});

test('an entry that proves nothing is refused by name', () => {
  write('src/a.rs', 'if x > 1 { y } // y');
  write('tests/paths/main.rs', '');
  assert.equal(list(good).length, 1);
  assert.throws(() => list({ ...good, find: 'gone' }), /list\.json entry 1: its text stands 0 times in src\/a\.rs/);
  assert.throws(() => list({ ...good, find: 'y' }), /2 times/);
  assert.throws(() => list({ ...good, replace: good.find }), /changes nothing/);
  assert.throws(() => list({ ...good, runner: 'nobody' }), /tests\/ has no "nobody"/);
  assert.throws(() => list({ ...good, file: '../a.rs' }), /there is no file/);
  assert.throws(() => list({ ...good, test: undefined }), /test must be text/);
  assert.throws(() => list(good, good), /entry 2: the name "a" is taken/);
  write('tests/mutations/list.json', '{}');
  assert.throws(() => readMutations(folder), /not a list/);
});

test('a guard is replaced letter by letter', () => {
  assert.equal(mutated('a $& b', { find: '$&', replace: '$1$$' }), 'a $1$$ b');
});

test('a test is named as its own binary knows it', () => {
  assert.equal(testName(good), 't');
  assert.equal(testName({ runner: 'lib', test: 'config::tests::t' }), 'config::tests::t');
});

test('a test over whole stacks is found by its title alone', () => {
  write('tests/e2e/one.test.mjs', "test('a (b) c', () => {});\ntest('a (b) c d', () => {});");
  assert.equal(fileOfTitle(folder, 'a (b) c'), join('tests', 'e2e', 'one.test.mjs'));
  assert.throws(() => fileOfTitle(folder, 'a (b)'), /0 files/);
  const pattern = new RegExp(titlePattern('a (b) c'));
  assert.deepEqual([pattern.test('a (b) c'), pattern.test('a (b) c d')], [true, false]);
});
