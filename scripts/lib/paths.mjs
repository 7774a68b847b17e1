// Where things are. Nothing outside these places is written, save by rustup, cargo, npm and apt themselves.
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root of the repository. */
export const root = resolve(dirname(fileURLToPath(import.meta.url)), '..', '..');

/** Tools that the project installs for itself, one folder per tool and version, shared by all clones. */
export const toolsCache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'sealpost', 'tools');

/** What the Worker build leaves for wrangler. */
export const buildDir = join(root, 'build');

/** The Wasm build may use another compiler than the native one; sharing a folder, each would rebuild the other's work. */
export const wasmTargetDir = join(root, 'target-wasm');

/** Where the native build goes. */
export const nativeTargetDir = process.env.CARGO_TARGET_DIR ? resolve(root, process.env.CARGO_TARGET_DIR) : join(root, 'target');

/** The native command, once built. */
export const sealpostCommand = join(nativeTargetDir, 'debug', 'sealpost');

/** The Node that the package `node` brings: wrangler needs 22.12, the machine's own may be older. */
export const pinnedNode = join(root, 'node_modules', 'node', 'bin', 'node');

/** State of the local stack: database file, logs, secrets. */
export const stackHome = resolve(root, process.env.SEALPOST_HOME || '.sealpost');

/** A file in node_modules. */
export function nodeModule(...parts) {
  return join(root, 'node_modules', ...parts);
}
