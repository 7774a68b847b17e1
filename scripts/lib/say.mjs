// What the scripts print: one line per thing a person wants to know, one sentence when something is wrong.

/** A failure that is explained by one sentence. It is printed without a stack trace and ends the script with code 1. */
export class Failure extends Error {}

/** Prints one line. */
export function say(text) {
  process.stdout.write(`${text}\n`);
}

/** Prints one line about a named part or stage. */
export function sayPart(name, text) {
  say(`${name.padEnd(10)} ${text}`);
}

/** A duration for people, from milliseconds. */
export function seconds(ms) {
  return ms < 9_950 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
}

/** A size for people, from bytes. The unit is 1000 bytes, as in the platform's limits. */
export function kilobytes(bytes) {
  return `${(bytes / 1000).toFixed(1)} kB`;
}

/** Runs a script's main function: a `Failure` is one sentence and code 1, anything else shows where it came from. */
export async function main(run) {
  try {
    const code = await run();
    process.exitCode = code ?? 0;
  } catch (error) {
    process.stderr.write(`\nerror: ${error instanceof Failure ? error.message : (error?.stack ?? error)}\n`);
    process.exitCode = 1;
  }
}
