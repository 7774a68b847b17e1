// The simulation's test binary: built with a profile of its own, run with the words of whoever asked.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { nativeTargetDir, root, stackHome } from './paths.mjs';
import { looksOffline, mustRun, overlay, run } from './run.mjs';
import { ensureRust } from './rust.mjs';
import { Failure, sayPart } from './say.mjs';

/** Output of cargo's build messages: one line of JSON for each crate. */
const MESSAGES_CHARS_MAX = 50_000_000;

/** Where cargo leaves what this profile builds; there once the simulation was built. */
const BUILT = join(nativeTargetDir, 'simulation', 'deps');

/** Whether the dependencies were compiled before, which is most of the first build. */
export function isSimulationBuilt() {
  return existsSync(BUILT);
}

/** What the binary is told: the words as they are; without any, a thousand seeds. */
export function simulationWords(words) {
  return words.length === 0 || words[0].startsWith('--') && words[0] !== '--help' ? ['seeds', ...words] : words;
}

/** Builds the binary where anything changed: `{ program, ms, compiled }`. */
export async function buildSimulation() {
  await ensureRust();
  const first = !isSimulationBuilt();
  if (first) sayPart('build', 'compiling the simulation (about 4 min, most of it the embedded database engine)');
  const args = ['test', '--locked', '--features', 'cli', '--profile', 'simulation', '--test', 'simulation', '--no-run', '--message-format=json-render-diagnostics'];
  const { stdout, stderr, ms } = await mustRun('cargo test --no-run', 'cargo', args, {
    label: 'cargo build',
    about: first ? '4 min' : undefined,
    outputCharsMax: MESSAGES_CHARS_MAX,
    explain: (said) =>
      looksOffline(said) ? 'The crates registry cannot be reached, and some crates are not on this machine yet: check the network and try again.' : undefined,
  });
  const program = testProgram(stdout);
  if (!program) throw new Failure('cargo built no simulation: is [[test]] "simulation" gone from Cargo.toml?');
  return { program, ms, compiled: /^\s*Compiling /m.test(stderr) };
}

/** The executable that cargo's messages name for the test target. */
export function testProgram(messages) {
  const lines = messages.split('\n').filter((line) => line.startsWith('{'));
  const built = lines.map((line) => JSON.parse(line)).filter((message) => message.target?.name === 'simulation' && message.executable);
  return built.at(-1)?.executable;
}

/** What the binary must know: which commit it was built from, and where state is kept. */
export async function simulationEnv() {
  return { SEALPOST_HOME: stackHome, SEALPOST_COMMIT: await commit() };
}

/** The commit, with `+changes` where the tree is not what was committed; empty outside of git. */
async function commit() {
  const head = await git(['rev-parse', 'HEAD']);
  const changes = await git(['status', '--porcelain']);
  return head && `${head}${changes ? '+changes' : ''}`;
}

async function git(args) {
  try {
    const { code, stdout } = await run('git', args);
    return code === 0 ? stdout.trim() : '';
  } catch (error) {
    if (error instanceof Failure) return '';
    throw error;
  }
}

/** Runs the binary with this terminal as its own, and returns its code. It is asked to stop, and says what it did until then. */
export async function runSimulation(program, words, stop) {
  const child = spawn(program, words, { cwd: root, env: overlay(await simulationEnv()), stdio: 'inherit' });
  stop.promise.then(() => child.kill('SIGTERM'));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve(code ?? 1));
  });
}
