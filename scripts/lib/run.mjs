// Runs other programs to their end, and shows that something happens while they run.
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { Failure, say, seconds } from './say.mjs';
import { root } from './paths.mjs';

/** How often a long step says that it is still at it. Shorter would be noise, longer would look like a hang. */
const HEARTBEAT_MS = 15_000;

/** How much of a program's output is kept, from its end, unless the caller needs more. */
const OUTPUT_CHARS_MAX = 400_000;

/** The programs that run at this moment, so that whoever is asked to stop can end them. */
const running = new Set();

/** Ends every program that `run` started and that has not ended yet. */
export function endRunning() {
  for (const child of running) child.kill('SIGTERM');
}

/** The path of a program on PATH, or undefined. */
export function which(program) {
  for (const folder of (process.env.PATH || '').split(delimiter)) {
    if (!folder) continue;
    const path = join(folder, program);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not here; the next folder may have it.
    }
  }
  return undefined;
}

/**
 * Runs a program to its end and returns `{ code, stdout, stderr, ms }`; it does not judge the code.
 * `env` is laid over the environment; a value of undefined removes the variable. `timeoutMs` ends the program (code -1).
 * `label` turns on the heartbeat, `about` is how long the step usually takes; `input` goes to the program's input.
 */
export function run(program, args, options = {}) {
  const { env = {}, cwd = root, label, about, timeoutMs, input, outputCharsMax = OUTPUT_CHARS_MAX } = options;
  const started = Date.now();
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd,
      env: overlay(env),
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    running.add(child);
    if (input !== undefined) child.stdin.end(input);
    let stdout = '';
    let stderr = '';
    let last = '';
    const take = (text) => {
      last = text.split('\n').findLast((line) => line.trim())?.trim() ?? last;
    };
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout = (stdout + text).slice(-outputCharsMax);
      take(text);
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr = (stderr + text).slice(-outputCharsMax);
      take(text);
    });
    const heartbeat = label
      ? setInterval(() => {
          const now = last.length > 70 ? `${last.slice(0, 67)}...` : last;
          say(`  ${label}: ${seconds(Date.now() - started)}${about ? ` of about ${about}` : ''}${now ? ` (${now})` : ''}`);
        }, HEARTBEAT_MS)
      : undefined;
    let timedOut = false;
    const limit = timeoutMs
      ? setTimeout(() => {
          timedOut = true;
          child.kill('SIGKILL');
        }, timeoutMs)
      : undefined;
    const settle = () => {
      running.delete(child);
      clearInterval(heartbeat);
      clearTimeout(limit);
    };
    child.on('error', (error) => {
      settle();
      reject(error.code === 'ENOENT' ? new Failure(`The program "${program}" is not there: install it and try again.`) : error);
    });
    child.on('close', (code) => {
      settle();
      resolve({ code: timedOut ? -1 : (code ?? -1), stdout, stderr, ms: Date.now() - started });
    });
  });
}

/** Like `run`, but a code other than 0 is a `Failure` that names the step and ends with what the program said. */
export async function mustRun(step, program, args, options = {}) {
  const result = await run(program, args, options);
  if (result.code !== 0) {
    const said = withoutProgress(`${result.stdout}\n${result.stderr}`);
    const reason = options.explain?.(said);
    if (reason) throw new Failure(reason);
    throw new Failure(`${step} failed (${program} ended with ${result.code}).${said ? `\n${said.slice(-4000)}` : ''}`);
  }
  return result;
}

/** Output without cargo's progress lines: what is left is what went wrong. */
export function withoutProgress(output) {
  const lines = output.split('\n').filter((line) => !/^\s*(Compiling|Checking|Downloading|Downloaded|Updating|Locking|Adding|Fresh|Running) /.test(line));
  return lines.join('\n').trim();
}

/** The environment with changes laid over it. */
export function overlay(changes) {
  const env = { ...process.env };
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) delete env[name];
    else env[name] = String(value);
  }
  return env;
}

/** Whether a program's last words mean that a registry could not be reached. */
export function looksOffline(said) {
  return /Could not resolve host|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|failed to connect|Connection timed out|network is unreachable|Temporary failure resolving|spurious network error|download of .* failed|error sending request/i.test(
    said,
  );
}
