// The secrets of a local stack: random on its first start, kept beside its database, never in the tree.
import { createHash, randomBytes } from 'node:crypto';
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Failure } from './say.mjs';

/** Bytes of every random secret: as many as the hash functions that use them give out. */
const SECRET_BYTES = 32;

/** Reads the secrets of a stack's home, and makes them where there are none. */
export function loadSecrets(home) {
  const path = join(home, 'secrets.json');
  if (existsSync(path)) {
    try {
      return JSON.parse(readFileSync(path, 'utf8'));
    } catch {
      throw new Failure(`${path} is not JSON: repair it, or delete it together with outbox.db in the same folder.`);
    }
  }
  const secrets = {
    producerToken: `producer_${randomBytes(SECRET_BYTES).toString('base64url')}`,
    operatorToken: `operator_${randomBytes(SECRET_BYTES).toString('base64url')}`,
    webhookSecret: `whsec_${randomBytes(SECRET_BYTES).toString('base64')}`,
    keySecret: randomBytes(SECRET_BYTES).toString('base64'),
    recipientSecret: randomBytes(SECRET_BYTES).toString('base64'),
    databaseToken: `database_${randomBytes(SECRET_BYTES).toString('base64url')}`,
    providerKey: `re_${randomBytes(SECRET_BYTES).toString('hex')}`,
  };
  writeFileSync(path, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600 });
  chmodSync(path, 0o600);
  return secrets;
}

/** The Worker's secret bindings, as `wrangler secret put` would set them. */
export function secretBindings(secrets) {
  return {
    DATABASE_TOKEN: secrets.databaseToken,
    RESEND_API_KEY: secrets.providerKey,
    // The provider model lets the same key read.
    RESEND_READ_KEY: secrets.providerKey,
    PRODUCER_TOKENS: sha256Hex(secrets.producerToken),
    OPERATOR_TOKENS: sha256Hex(secrets.operatorToken),
    KEY_SECRETS: `k1:${secrets.keySecret}`,
    RECIPIENT_SECRET: secrets.recipientSecret,
    WEBHOOK_SECRETS: secrets.webhookSecret,
  };
}

function sha256Hex(text) {
  return createHash('sha256').update(text).digest('hex');
}
