// A copy of the tree in which guards can be taken out, with target folders of its own: nothing that it builds or breaks
// reaches the tree it was copied from.
import { createHash } from 'node:crypto';
import { constants, copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { countNode } from './gate.mjs';
import { fileOfTitle, mutated, testName, titlePattern } from './mutations.mjs';
import { root, toolsCache } from './paths.mjs';
import { mustRun, run } from './run.mjs';
import { Failure, sayPart } from './say.mjs';

/** A native test takes milliseconds to seconds; a mutant that runs in circles counts as caught after this. */
const NATIVE_TIMEOUT_MS = 180_000;

/** A test over whole stacks takes seconds to a minute; Node ends it by itself, so that its stacks are ended too. */
const E2E_TIMEOUT_MS = 300_000;

/** What a test run says beyond Node's own time limit is waited for this long. */
const E2E_GRACE_MS = 60_000;

/** Output of cargo's build messages: one line of JSON for each crate. */
const MESSAGES_CHARS_MAX = 50_000_000;

/** The copy. Its path is the same in every run of one clone, so that cargo finds what it has built. */
export class Lab {
  constructor() {
    const clone = createHash('sha256').update(root).digest('hex').slice(0, 12);
    this.home = join(dirname(toolsCache), 'mutants', clone);
    this.tree = join(this.home, 'tree');
    this.lock = join(this.home, 'lock');
    this.env = { CARGO_TARGET_DIR: join(this.home, 'target'), SEALPOST_HOME: join(this.home, 'stack') };
    this.binaries = new Map();
  }

  /** Copies the tree as git sees it: what is tracked, and what is new and not ignored. */
  async open({ withModules }) {
    mkdirSync(this.home, { recursive: true });
    this.takeLock();
    rmSync(this.tree, { recursive: true, force: true });
    const { stdout } = await mustRun('git ls-files', 'git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard']);
    for (const name of new Set(stdout.split('\0').filter(Boolean))) {
      const from = join(root, name);
      // A file that is deleted and still tracked is in the list.
      if (!existsSync(from)) continue;
      mkdirSync(dirname(join(this.tree, name)), { recursive: true });
      // With new times: cargo must never take what an earlier mutant left for the work of these sources.
      copyFileSync(from, join(this.tree, name));
    }
    if (withModules) {
      cpSync(join(root, 'node_modules'), join(this.tree, 'node_modules'), { recursive: true, verbatimSymlinks: true, mode: constants.COPYFILE_FICLONE });
      mkdirSync(join(this.home, 'target-wasm'), { recursive: true });
      symlinkSync(join(this.home, 'target-wasm'), join(this.tree, 'target-wasm'));
    }
  }

  /** Removes the copy; the target folders stay for the next run. */
  close() {
    rmSync(this.tree, { recursive: true, force: true });
    rmSync(this.lock, { force: true });
  }

  /** Two runs in one copy would test each other's mutants. */
  takeLock() {
    const holder = existsSync(this.lock) ? Number(readFileSync(this.lock, 'utf8')) : 0;
    if (holder && isAlive(holder)) throw new Failure(`Mutations of this clone are being run already (process ${holder}): wait for it, or end it.`);
    writeFileSync(this.lock, String(process.pid));
  }

  /** Takes a guard out, does something, and puts the guard back. */
  async without(mutation, work) {
    const path = join(this.tree, mutation.file);
    const whole = readFileSync(path, 'utf8');
    writeFileSync(path, mutated(whole, mutation));
    this.binaries.clear();
    try {
      return await work();
    } finally {
      writeFileSync(path, whole);
      this.binaries.clear();
    }
  }

  /**
   * Builds what a mutation's test needs and runs that test alone: `{ result, output }`, where `result` is `passed`,
   * `failed`, `broken` (it does not compile) or `missing` (there is no such test).
   */
  async judge(mutation) {
    return mutation.runner === 'e2e' ? this.judgeStack(mutation) : this.judgeNative(mutation);
  }

  async judgeNative(mutation) {
    const built = await this.build(mutation.runner);
    if (!built.binary) return { result: 'broken', output: built.output };
    const answer = await run(built.binary, [testName(mutation), '--exact'], { cwd: this.tree, env: this.env, timeoutMs: NATIVE_TIMEOUT_MS });
    const output = `${answer.stdout}\n${answer.stderr}`;
    // A mutant that ran in circles or aborted wrote no closing line, but its test had begun.
    const began = /^running 1 test$/m.test(output);
    if (!began) return { result: 'missing', output };
    if (answer.code !== 0) return { result: 'failed', output };
    return { result: /^test result: ok\. 1 passed;/m.test(output) ? 'passed' : 'missing', output };
  }

  /** The test binary of a runner, built from the sources as they are now. */
  async build(runner) {
    if (this.binaries.has(runner)) return this.binaries.get(runner);
    const target = runner === 'lib' ? ['--lib'] : ['--test', runner];
    const args = ['test', '--locked', '--features', 'cli', ...target, '--no-run', '--message-format=json-render-diagnostics'];
    const { code, stdout, stderr } = await run('cargo', args, { cwd: this.tree, env: this.env, outputCharsMax: MESSAGES_CHARS_MAX });
    const executables = stdout.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line)).filter((message) => message.profile?.test && message.executable);
    const built = { binary: code === 0 ? executables.at(-1)?.executable : undefined, output: stderr };
    this.binaries.set(runner, built);
    return built;
  }

  async judgeStack(mutation) {
    const built = await run(process.execPath, ['scripts/test.mjs', '--only', 'build'], { cwd: this.tree, env: this.env, label: 'build' });
    if (built.code !== 0) return { result: 'broken', output: built.stdout + built.stderr };
    const file = fileOfTitle(this.tree, mutation.test);
    const node = join(this.tree, 'node_modules', 'node', 'bin', 'node');
    const args = ['--test', '--test-reporter=tap', `--test-timeout=${E2E_TIMEOUT_MS}`, `--test-name-pattern=${titlePattern(mutation.test)}`, file];
    const answer = await run(node, args, { cwd: this.tree, env: this.env, label: 'e2e', timeoutMs: E2E_TIMEOUT_MS + E2E_GRACE_MS });
    const output = `${answer.stdout}\n${answer.stderr}`;
    const { passed, failed } = countNode(output);
    if (failed > 0 || answer.code !== 0) return { result: 'failed', output };
    return { result: passed > 0 ? 'passed' : 'missing', output };
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Says where the copy is, once. */
export function sayLab(lab) {
  sayPart('mutants', `the copy is ${lab.tree}; its builds stay in ${lab.home} for the next run`);
  sayPart('mutants', 'running every test once without a mutation (the first run of a clone compiles for about 4 min)');
}
