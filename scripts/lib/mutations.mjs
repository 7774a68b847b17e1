// The list of mutations: reading it, checking it, and the command that runs one mutation's test.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from './say.mjs';

/** Where the lists are; each part of the house keeps its own file. */
const FOLDER = join('tests', 'mutations');

/** What every entry must say. */
const FIELDS = ['name', 'subject', 'file', 'find', 'replace', 'test', 'runner'];

/** Who runs an entry's test: a test binary of cargo by its name, the library's own tests, or Node over whole stacks. */
const RUNNER = /^[a-z][a-z0-9_]*$/;

/** Reads and checks every list under `root`; throws one `Failure` that names everything that is wrong. */
export function readMutations(root) {
  const folder = join(root, FOLDER);
  const files = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.json')).sort() : [];
  const problems = [];
  const entries = files.flatMap((name) => {
    const from = join(FOLDER, name);
    try {
      const list = JSON.parse(readFileSync(join(root, from), 'utf8'));
      if (!Array.isArray(list)) throw new Error('it is not a list');
      return list.map((entry, index) => ({ ...entry, from: `${from} entry ${index + 1}` }));
    } catch (error) {
      problems.push(`${from}: ${error.message}`);
      return [];
    }
  });
  const names = new Set();
  for (const entry of entries) {
    const wrong = problemsOf(entry, root);
    if (wrong.length === 0 && names.has(entry.name)) wrong.push(`the name "${entry.name}" is taken`);
    names.add(entry.name);
    problems.push(...wrong.map((problem) => `${entry.from}: ${problem}`));
  }
  if (problems.length > 0) throw new Failure(`The list of mutations is wrong:\n${problems.join('\n')}`);
  return entries;
}

function problemsOf(entry, root) {
  const absent = FIELDS.filter((field) => typeof entry[field] !== 'string' || (entry[field] === '' && field !== 'replace'));
  if (absent.length > 0) return [`${absent.join(', ')} must be text`];
  const problems = [];
  if (!RUNNER.test(entry.runner)) problems.push(`the runner "${entry.runner}" is neither lib, e2e nor a test binary`);
  if (entry.runner !== 'lib' && !runnerExists(entry.runner, root)) problems.push(`tests/ has no "${entry.runner}"`);
  if (entry.find === entry.replace) problems.push('the replacement changes nothing');
  const path = join(root, entry.file);
  if (entry.file.split('/').includes('..') || !existsSync(path)) return [...problems, `there is no file ${entry.file}`];
  const times = readFileSync(path, 'utf8').split(entry.find).length - 1;
  if (times !== 1) problems.push(`its text stands ${times} times in ${entry.file} and must stand there once`);
  return problems;
}

function runnerExists(runner, root) {
  return ['', '.rs', '/main.rs'].some((end) => existsSync(join(root, 'tests', runner + end)));
}

/** The file's text with the guard taken out. The replacement is taken letter by letter. */
export function mutated(text, { find, replace }) {
  return text.split(find).join(replace);
}

/** The name of a test as its own binary knows it: the runner in front, which the lists may carry, is cut off. */
export function testName({ runner, test }) {
  return test.startsWith(`${runner}::`) ? test.slice(runner.length + 2) : test;
}

/** The file of tests/e2e that holds a test of this title. */
export function fileOfTitle(root, title) {
  const folder = join(root, 'tests', 'e2e');
  const quoted = ["'", '"', '`'].map((quote) => quote + title.replaceAll(quote, `\\${quote}`) + quote);
  const holds = (name) => {
    const text = readFileSync(join(folder, name), 'utf8');
    return quoted.some((part) => text.includes(part));
  };
  const found = readdirSync(folder).filter((name) => name.endsWith('.test.mjs') && holds(name));
  if (found.length !== 1) throw new Failure(`${found.length} files of tests/e2e hold a test called "${title}"; there must be one.`);
  return join('tests', 'e2e', found[0]);
}

/** A regular expression that fits this title alone, for Node's test runner. */
export function titlePattern(title) {
  return `^${title.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')}$`;
}
