// The ledger in workerd: a backlog is counted and then brought once more, what another system sent makes no mail, a later
// revision says the link of the first, and the figures are collected.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { UNPACED, assertSentOnce, notices, record, settled } from './checks.mjs';
import { startStack } from './harness.mjs';

let stack;
before(async () => {
  stack = await startStack({ vars: UNPACED });
});
after(() => stack?.stop());
beforeEach(() => stack.calm());

const replay = (body) => stack.fetch('/v1/replays', { method: 'POST', token: stack.secrets.producerToken, body });
const look = (path) => stack.fetch(path, { token: stack.secrets.operatorToken });

test('a backlog is counted, brought once more, and makes only the mails that are new', async () => {
  const name = `backlog-${randomUUID()}`;
  const intents = notices(name, 8);
  const known = await record(stack, intents.slice(0, 5));
  await settled(stack, known);
  const batch = `outage-${randomUUID()}`;
  const dry = await replay({ batch, dryRun: true, intents });
  assert.deepEqual([dry.status, dry.body.forecast.new.count, dry.body.forecast.known.count], [200, 3, 5], JSON.stringify(dry.body));
  assert.doesNotMatch(JSON.stringify(dry.body), /@/);
  const done = await replay({ batch, intents });
  assert.deepEqual([done.status, done.body.new, done.body.known, done.body.changed], [202, 3, 5, 0], JSON.stringify(done.body));
  const ids = done.body.intents.map(({ id }) => id);
  assert.deepEqual(ids.slice(0, 5), known);
  await settled(stack, ids, { ticks: true });
  await assertSentOnce(stack, ids);
  assert.equal((await replay({ batch, intents })).body.new, 0);
  const [totals] = (await look(`/v1/replays/${batch}`)).body.modes;
  assert.deepEqual([totals.mode, totals.requests, totals.new, totals.known], ['send', 2, 3, 13]);
  assert.equal((await stack.intent(ids[7])).replayBatch, batch);
});

test('what another system sent is known, and makes no mail', async () => {
  const [intent] = notices(`legacy-${randomUUID()}`, 1);
  const filled = await replay({ batch: 'legacy', mode: 'backfill', intents: [intent] });
  assert.deepEqual([filled.status, filled.body.intents[0].status], [200, 'external'], JSON.stringify(filled.body));
  const { body } = await stack.intents([intent]);
  assert.deepEqual([body.intents[0].id, body.intents[0].duplicate], [filled.body.intents[0].id, true]);
  await stack.tick();
  assert.equal((await stack.accepted()).length, 0);
});

test('a second send of a name that waits records nothing', async () => {
  const [first, second] = notices(`named-${randomUUID()}`, 2).map((intent) => ({ ...intent, id: 'welcome-bo', notBefore: '2099-01-01T00:00:00Z' }));
  const [id] = await record(stack, [first]);
  const { body } = await stack.intents([second]);
  assert.deepEqual([body.intents[0].id, body.intents[0].duplicate], [id, true]);
});

test('a later revision says the link of the first, and no answer does', async () => {
  const subscriptionId = randomUUID();
  const link = (number) => `https://example.org/cancel?t=${number}`;
  // The charge is two days away: the family's window is open.
  const businessAt = new Date(Date.now() + 48 * 3_600_000).toISOString();
  const notice = (revision) => ({
    family: 'renewal_notice',
    businessAt,
    key: { subscriptionId, periodStart: 'p1', kind: 't72' },
    revision,
    to: `ada-${revision}@example.org`,
    data: { company: 'Example', customerName: 'Ada', plan: 'Tea', renewsOn: 'soon', amount: 'EUR 1', manageUrl: 'https://example.org/m' },
    secret: { cancelUrl: link(revision) },
  });
  const { body } = await stack.intents([notice(0), notice(1)]);
  assert.deepEqual(body.intents.map(({ secret }) => secret), ['stored', 'reused']);
  assert.doesNotMatch(JSON.stringify(body), /cancel/);
  await settled(stack, body.intents.map(({ id }) => id), { ticks: true });
  assert.equal((await stack.accepted()).length, 2);
  const ids = JSON.stringify(body.intents.map(({ id }) => id));
  const said = await stack.sql(`SELECT DISTINCT body ->> '$.secret.cancelUrl' AS link FROM letters WHERE outbox_id IN (SELECT value FROM json_each(?1))`, [ids]);
  assert.deepEqual(said, [{ link: link(0) }]);
});

test('the figures are collected', async () => {
  const scraped = await look('/metrics');
  assert.equal(scraped.status, 200);
  assert.match(scraped.body, /^sealpost_claims_minted_total \d+$/m);
  assert.match(scraped.body, /^sealpost_duplicates_suppressed_total\{family="notice",by="key"\} \d+$/m);
  assert.equal((await stack.fetch('/metrics')).status, 401);
});
