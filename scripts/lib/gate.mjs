// Runs the stages of the gate one after the other, with a line each, and adds up what passed and failed.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { run, withoutProgress } from './run.mjs';
import { Failure, say, seconds } from './say.mjs';
import { nativeTargetDir } from './paths.mjs';

/** How much of a failed stage's output is shown; all that was kept of it is in its log. */
const SHOWN_CHARS = 12_000;

/** Where the stages' output goes. */
const LOGS = join(nativeTargetDir, 'gate');

/**
 * Runs stages `{ name, needs?, run }`. `run` returns nothing (one check, passed), `{ passed, failed }`, or
 * `{ skipped: reason }`; it throws where it fails. Returns the exit code.
 */
export async function runGate(stages) {
  const started = Date.now();
  const outcome = new Map();
  const notes = [];
  const total = { passed: 0, failed: 0 };
  for (const stage of stages) {
    const since = Date.now();
    const missing = (stage.needs ?? []).find((name) => outcome.get(name) === false);
    let result;
    try {
      if (missing) throw new Failure(`not run, because the stage "${missing}" failed`);
      result = (await stage.run()) ?? { passed: 1, failed: 0 };
    } catch (error) {
      result = { failed: 1, passed: 0, error, ...error.counts };
    }
    outcome.set(stage.name, !result.error);
    total.passed += result.passed ?? 0;
    total.failed += result.failed ?? 0;
    if (result.skipped) notes.push(`NOT CHECKED: ${stage.name}: ${result.skipped}`);
    const word = result.error ? 'FAILED' : result.skipped ? 'SKIPPED' : 'ok';
    const tests = (result.passed ?? 0) + (result.failed ?? 0) > 1 ? `  ${result.passed} passed, ${result.failed} failed` : '';
    say(`${stage.name.padEnd(12)} ${word.padEnd(8)} ${seconds(Date.now() - since).padStart(7)}${tests}`);
    if (result.error) say(`${explain(result.error)}\n`);
  }
  for (const note of notes) say(note);
  say(`gate: ${seconds(Date.now() - started)}`);
  say(`${total.passed} passed, ${total.failed} failed`);
  return total.failed === 0 ? 0 : 1;
}

/** Runs a program as a stage or a piece of one; its output goes to a log, and is shown where it fails. */
export async function piece(name, program, args, options = {}) {
  const result = await run(program, args, { label: name, ...options });
  const output = `${result.stdout}\n${result.stderr}`;
  mkdirSync(LOGS, { recursive: true });
  const log = join(LOGS, `${name}.log`);
  writeFileSync(log, output);
  if (result.code !== 0) {
    const error = new Failure(`${program} ${args.join(' ')} ended with ${result.code} (log: ${log})\n${shown(output)}`);
    error.counts = options.count?.(output);
    if (error.counts) error.counts.failed ||= 1;
    throw error;
  }
  return { ...result, output };
}

/** Adds up the closing lines of `cargo test`. */
export function countCargo(output) {
  const counts = { passed: 0, failed: 0 };
  for (const [, passed, failed] of output.matchAll(/^test result: \S+ (\d+) passed; (\d+) failed/gm)) {
    counts.passed += Number(passed);
    counts.failed += Number(failed);
  }
  return counts;
}

/** Adds up the closing lines of Node's test runner (TAP). */
export function countNode(output) {
  const sum = (word) => [...output.matchAll(new RegExp(`^# ${word} (\\d+)$`, 'gm'))].reduce((total, [, count]) => total + Number(count), 0);
  return { passed: sum('pass'), failed: sum('fail') + sum('cancelled') };
}

/** The tests that Node's test runner skipped, each with its reason. A test that nobody saw run is worth a line. */
export function skippedNode(output) {
  return [...output.matchAll(/^\s*ok \d+ - (.*?) # SKIP ?(.*)$/gm)].map(([, name, reason]) => `${name} (${reason || 'no reason given'})`);
}

function shown(output) {
  // Passed tests are no news in a failure.
  const lines = withoutProgress(output).split('\n').filter((line) => !/^(test .* \.\.\. ok|ok \d+ - .*)$/.test(line));
  return lines.join('\n').trim().slice(-SHOWN_CHARS);
}

function explain(error) {
  return error instanceof Failure ? error.message : (error.stack ?? String(error));
}
