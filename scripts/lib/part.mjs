// A part of the local stack: a program with children of its own, started in its own process group, watched, and ended
// with everything it started.
import { spawn } from 'node:child_process';
import { createWriteStream, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import { Failure } from './say.mjs';
import { overlay } from './run.mjs';
import { root } from './paths.mjs';

/** How long a part may take to end by itself before its group is killed. */
const STOP_GRACE_MS = 5_000;

/** How often a condition of a starting or ending part is looked at. */
const POLL_MS = 50;

/** A log that has grown past this starts anew with the next start of its part. */
const LOG_BYTES_MAX = 20_000_000;

/** How much of a part's last output is kept to explain its death. */
const TAIL_CHARS = 4_000;

/** The parts whose program has not ended yet. */
const living = new Set();

// The last guard: whatever ends this process, no part outlives it unseen.
process.on('exit', () => {
  for (const part of living) part.signal('SIGKILL');
});

/** Asks every part that is still starting to end; its `ready` then fails at once. */
export function endStarting() {
  for (const part of living) if (part.starting) part.signal('SIGTERM');
}

/** A running program. */
export class Part {
  /** Starts `program` with `args`; what it prints goes to `logPath`. */
  constructor({ name, program, args, env = {}, logPath }) {
    this.name = name;
    this.logPath = logPath;
    this.tail = '';
    this.starting = true;
    mkdirSync(dirname(logPath), { recursive: true });
    const log = createWriteStream(logPath, { flags: tooLong(logPath) ? 'w' : 'a' });
    this.child = spawn(program, args, { cwd: root, env: overlay(env), detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    this.pid = this.child.pid;
    living.add(this);
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on('data', (bytes) => {
        log.write(bytes);
        this.tail = (this.tail + bytes).slice(-TAIL_CHARS);
      });
    }
    /** Resolves with a sentence once the program has ended, for whatever reason. */
    this.ended = new Promise((resolve) => {
      this.child.on('error', (error) => resolve(`could not be started (${error.code ?? error.message})`));
      this.child.on('exit', (code, signal) => resolve(signal ? `was ended by ${signal}` : `ended with code ${code}`));
    }).then((how) => {
      this.how = how;
      return how;
    });
  }

  /** Waits until `check` answers true; fails where the part ends first or takes longer than `timeoutMs`. */
  async ready(check, timeoutMs) {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      if (this.how) throw new Failure(`${this.obituary()}`);
      if (await check()) {
        this.starting = false;
        return this;
      }
      if (Date.now() > deadline) throw new Failure(`The ${this.name} was not ready after ${timeoutMs / 1000} s; its log is ${this.logPath}.`);
      await delay(POLL_MS);
    }
  }

  /** One sentence about how the part ended, with its last line. */
  obituary() {
    // A program that was killed had no time to say why.
    const lines = this.how?.startsWith('ended') ? this.tail.split('\n').map((line) => line.trim()).filter(Boolean) : [];
    const last = lines.findLast((line) => /error/i.test(line)) ?? lines.at(-1);
    return `The ${this.name} ${this.how}${last ? `, saying: ${last.slice(0, 300)}` : ''} (log: ${this.logPath}).`;
  }

  /** Sends a signal to the part and everything it started. */
  signal(signal) {
    signalGroup(this.pid, signal);
  }

  /** Kills the part and everything it started as a power cut would, and returns when nothing of it is left. */
  async kill(signal = 'SIGKILL') {
    this.signal(signal);
    await untilGroupIsGone(this.pid);
    living.delete(this);
  }

  /** Ends the part and everything it started, politely first, and returns when nothing of it is left. */
  async stop() {
    await endGroup(this.pid);
    living.delete(this);
  }
}

/** Ends a process group: SIGTERM, a grace, SIGKILL; returns once it is empty. */
export async function endGroup(pid) {
  signalGroup(pid, 'SIGTERM');
  const deadline = Date.now() + STOP_GRACE_MS;
  while (groupLives(pid) && Date.now() < deadline) await delay(POLL_MS);
  if (groupLives(pid)) signalGroup(pid, 'SIGKILL');
  await untilGroupIsGone(pid);
}

async function untilGroupIsGone(pid) {
  const deadline = Date.now() + STOP_GRACE_MS;
  while (groupLives(pid)) {
    if (Date.now() > deadline) throw new Failure(`The process group ${pid} outlived its signal.`);
    await delay(POLL_MS);
  }
}

/** Whether any process of a group is alive. A dead one that nobody has collected yet does not count. */
export function groupLives(pid) {
  if (!signalGroup(pid, 0)) return false;
  if (process.platform !== 'linux') return true;
  return readdirSync('/proc').some((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      // pid (program) state parent group ...; the program's name may hold spaces and parentheses.
      const [state, , group] = readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
      return Number(group) === pid && state !== 'Z' && state !== 'X';
    } catch {
      return false;
    }
  });
}

function signalGroup(pid, signal) {
  if (!pid) return false;
  try {
    process.kill(-pid, signal);
    return true;
  } catch (error) {
    if (error.code === 'ESRCH') return false;
    throw error;
  }
}

function tooLong(path) {
  return (statSync(path, { throwIfNoEntry: false })?.size ?? 0) > LOG_BYTES_MAX;
}

/** Fails unless a port of 127.0.0.1 can be listened on. `variable` is the setting that chooses another. */
export async function ensureFreePort(port, what, variable) {
  const busy = await new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error) => resolve(error.code));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(undefined)));
  });
  if (busy) throw new Failure(`Port ${port} for the ${what} is taken (${busy}): end what uses it, or choose another with ${variable}=PORT.`);
}

/** A port of 127.0.0.1 that was free a moment ago. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Resolves after `ms` milliseconds. */
export function delay(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
