// What the local stack writes for wrangler and tells the provider: a configuration without surprises, an env file that
// holds every value, the Worker's door for events.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { loadSecrets, secretBindings } from '../../scripts/lib/secrets.mjs';
import { readSettings } from '../../scripts/lib/settings.mjs';
import { connectWebhook } from '../../scripts/lib/stack.mjs';
import { writeEnvFile, writeLocalConfig } from '../../scripts/lib/wrangler.mjs';

const folder = mkdtempSync(join(tmpdir(), 'sealpost-files-'));
after(() => rmSync(folder, { recursive: true }));

test('the local configuration builds nothing, and changes the consumers of every environment', () => {
  const path = join(folder, 'wrangler.toml');
  writeLocalConfig(path, { build: '/elsewhere', consumers: { max_retries: 2, retry_delay: 0 } });
  const text = readFileSync(path, 'utf8');
  assert.match(text, /^main = "\/elsewhere\/index\.js"$/m);
  assert.doesNotMatch(text, /\[build\]|scripts\/build\.mjs/);
  assert.match(text, /^\[triggers\]$/m);
  assert.doesNotMatch(text, /^max_retries = 100$/m);
  assert.equal(text.match(/^max_retries = 2$/gm)?.length, 4);
  assert.equal(text.match(/^retry_delay = 0$/gm)?.length, 4);
});

test('a consumer key that the configuration does not set is refused', () => {
  assert.throws(() => writeLocalConfig(join(folder, 'w.toml'), { consumers: { max_retrys: 2 } }), /max_retrys/);
});

test('the env file is private and refuses what it cannot hold', () => {
  const path = join(folder, 'worker.env');
  writeEnvFile(path, { MAIL_FROM: 'A "B" <a@b.example>' });
  assert.equal(readFileSync(path, 'utf8'), "MAIL_FROM='A \"B\" <a@b.example>'\n");
  assert.equal(statSync(path).mode & 0o777, 0o600);
  for (const broken of ['two\nlines', "it's", '5$x']) assert.throws(() => writeEnvFile(path, { BROKEN: broken }), /BROKEN/);
});

test('secrets are made once, kept privately, and tokens reach the Worker as hashes only', () => {
  const first = loadSecrets(folder);
  assert.deepEqual(loadSecrets(folder), first);
  assert.equal(statSync(join(folder, 'secrets.json')).mode & 0o777, 0o600);
  assert.match(first.webhookSecret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const bindings = secretBindings(first);
  assert.match(bindings.PRODUCER_TOKENS, /^[0-9a-f]{64}$/);
  assert.ok(!JSON.stringify(bindings).includes(first.producerToken));
});

test('settings: defaults, and a sentence for each that cannot be', () => {
  const settings = readSettings({});
  assert.deepEqual([settings.workerPort, settings.databasePort, settings.providerPort], [8787, 8080, 8025]);
  assert.throws(() => readSettings({ SEALPOST_PORT: 'http' }), /SEALPOST_PORT must be a whole number/);
  assert.throws(() => readSettings({ SEALPOST_PORT: '70000' }), /SEALPOST_PORT/);
  assert.throws(() => readSettings({ SEALPOST_PORT: '8080' }), /three different ports/);
});

test('the provider is told the door of the Worker that has the secret; a refusal ends the start', async () => {
  const orders = [];
  let status = 200;
  const provider = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    orders.push([request.method, request.url, JSON.parse(body)]);
    response.writeHead(status).end('{"error":"webhook_secret_invalid"}');
  });
  provider.listen(0, '127.0.0.1');
  await once(provider, 'listening');
  try {
    const url = readSettings({ SEALPOST_PORT: '9001' }).receiptsUrl;
    assert.equal(url, 'http://127.0.0.1:9001/v1/receipts/resend');
    const { webhookSecret: secret } = loadSecrets(folder);
    const providerUrl = `http://127.0.0.1:${provider.address().port}`;
    await connectWebhook(providerUrl, { url, secret, auto: true });
    assert.deepEqual(orders, [['POST', '/_/webhook', { url, secret, auto: true }]]);
    status = 400;
    await assert.rejects(connectWebhook(providerUrl, { url, secret }), /HTTP 400.*webhook_secret_invalid/);
  } finally {
    provider.close();
  }
});
