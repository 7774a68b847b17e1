// The compiler's Wasm target. First road: rustup. Second road, for a Debian machine whose rustup cannot download
// components: Debian's own compiler with the standard library built from Debian's source.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, copyFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { looksOffline, mustRun, run, which } from './run.mjs';
import { Failure, sayPart, seconds } from './say.mjs';

/** The target of every Cloudflare Worker in Rust. */
export const WASM_TARGET = 'wasm32-unknown-unknown';

/** Debian's packages for the second road: compiler, cargo, source of the standard library, linter, linker. */
const DEBIAN_PACKAGES = ['rustc-web', 'cargo-web', 'rust-web-src', 'rust-web-llvm', 'rust-web-clippy', 'lld-22'];

/** The name under which rustup knows the compiler in /usr. */
const DEBIAN_TOOLCHAIN = 'debian';

/** Where Debian's compiler looks for the target's standard library. */
const DEBIAN_LIBRARY = `/usr/lib/rustlib/${WASM_TARGET}/lib`;

/** rustup repeats a failing download for long; a good one of this component takes seconds. */
const TARGET_ADD_TIMEOUT_MS = 180_000;

/** Makes sure that the target can be compiled for; returns the environment that chooses the compiler. */
export async function ensureWasmTarget() {
  if (await compiles({})) return {};
  const debian = { RUSTUP_TOOLCHAIN: DEBIAN_TOOLCHAIN };
  if (which('rustup') && (await compiles(debian))) return debian;
  if (!which('rustup')) {
    throw new Failure(`This Rust has no target ${WASM_TARGET}, and rustup, which could add it, is missing: install rustup (https://rustup.rs) and try again.`);
  }
  sayPart('rust', `adding the target ${WASM_TARGET} (about 10 s)`);
  const added = await run('rustup', ['target', 'add', WASM_TARGET], { label: 'rustup', timeoutMs: TARGET_ADD_TIMEOUT_MS });
  if (added.code === 0 && (await compiles({}))) return {};
  const why = (added.stderr.match(/^error: (.*)$/m)?.[1] ?? 'no answer').slice(0, 160);
  if (!which('apt-get') || process.getuid?.() !== 0) {
    throw new Failure(
      `rustup could not add ${WASM_TARGET} (${why}): check the network and run \`rustup target add ${WASM_TARGET}\`. ` +
        'The other road, Debian\'s own compiler, needs apt-get and root.',
    );
  }
  sayPart('rust', `rustup could not add it (${why}); taking Debian's compiler instead (about 2 min)`);
  await installDebianCompiler();
  await buildStandardLibrary();
  await mustRun('rustup toolchain link', 'rustup', ['toolchain', 'link', DEBIAN_TOOLCHAIN, '/usr']);
  if (!(await compiles(debian))) throw new Failure(`Debian's compiler still cannot build for ${WASM_TARGET}.`);
  return debian;
}

/** Whether a compiler can build a library that uses the standard library for the target. */
async function compiles(env) {
  const folder = mkdtempSync(join(tmpdir(), 'sealpost-probe-'));
  try {
    const args = ['--target', WASM_TARGET, '--crate-type', 'lib', '--crate-name', 'probe', '--edition', '2024', '--emit', 'metadata'];
    const result = await run('rustc', [...args, '--out-dir', folder, '-'], {
      env,
      input: 'pub fn probe() -> std::collections::BTreeMap<u8, String> { Default::default() }',
    });
    return result.code === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function installDebianCompiler() {
  const explain = (said) =>
    looksOffline(said) ? 'Debian\'s package archive cannot be reached: check the network and try again.' : undefined;
  const env = { DEBIAN_FRONTEND: 'noninteractive' };
  await mustRun('apt-get update', 'apt-get', ['update', '-qq'], { label: 'apt-get update', about: '10 s', env, explain });
  const { ms } = await mustRun('apt-get install', 'apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...DEBIAN_PACKAGES], {
    label: 'apt-get install',
    about: '1 min',
    env,
    explain: (said) =>
      /Unable to locate package|has no installation candidate/.test(said)
        ? `This Debian has no ${DEBIAN_PACKAGES[0]}: add the target with \`rustup target add ${WASM_TARGET}\` on a network that allows it.`
        : explain(said),
  });
  sayPart('rust', `installed ${DEBIAN_PACKAGES.join(', ')} in ${seconds(ms)}`);
}

async function buildStandardLibrary() {
  const folder = mkdtempSync(join(tmpdir(), 'sealpost-std-'));
  try {
    // An empty library is enough: building it for the target builds the standard library first.
    mkdirSync(join(folder, 'src'));
    writeFileSync(join(folder, 'Cargo.toml'), '[package]\nname = "empty"\nversion = "0.0.0"\nedition = "2021"\n');
    writeFileSync(join(folder, 'src', 'lib.rs'), '');
    sayPart('rust', `building the standard library for ${WASM_TARGET} from Debian's source (about 40 s)`);
    const { ms } = await mustRun(
      'Building the standard library',
      '/usr/bin/cargo',
      ['build', '--release', '--target', WASM_TARGET, '-Zbuild-std=std,panic_abort'],
      {
        cwd: folder,
        label: 'standard library',
        about: '40 s',
        // -Zbuild-std is not stable; Debian's stable compiler takes it when told to.
        env: { RUSTC: '/usr/bin/rustc', RUSTC_BOOTSTRAP: '1', RUSTUP_TOOLCHAIN: undefined, CARGO_TARGET_DIR: join(folder, 'target'), RUSTFLAGS: undefined },
        explain: (said) =>
          looksOffline(said) ? 'The crates registry cannot be reached, and the standard library needs some of its crates: check the network and try again.' : undefined,
      },
    );
    mkdirSync(DEBIAN_LIBRARY, { recursive: true });
    // Libraries of an older compiler would be found next to the new ones, and be refused.
    for (const name of readdirSync(DEBIAN_LIBRARY)) if (name.endsWith('.rlib')) rmSync(join(DEBIAN_LIBRARY, name));
    const built = join(folder, 'target', WASM_TARGET, 'release', 'deps');
    for (const name of readdirSync(built)) {
      if (name.endsWith('.rlib') && !name.startsWith('libempty')) copyFileSync(join(built, name), join(DEBIAN_LIBRARY, name));
    }
    sayPart('rust', `built the standard library in ${seconds(ms)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
